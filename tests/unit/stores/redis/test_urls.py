"""URLs that cannot be used say why, and never show a password."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigurationError
from headrace.stores import open_store
from headrace.stores.redis.client.address import Tls, parse_address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://:secret@h:port", "the port is no number"),
        ("redis://:secret@h:70000", "the port is no number"),
        ("redis://:secret@h/first", "the database is no number"),
        ("redis://:secret@h?pool=3", "'pool' is none of db"),
        ("redis://:secret@h?db", "not name=value"),
        ("redis://:secret@h?ssl_certfile=x", "ssl_certfile is for rediss://"),
        ("rediss://:secret@h?ssl_keyfile=x", "nothing without ssl_certfile"),
        ("rediss://:secret@h?ssl_check_hostname=maybe", "ssl_check_hostname is one of"),
        ("rediss://:secret@h?ssl_cert_reqs=optional", "ssl_cert_reqs is one of required, none"),
        ("redis://:secret#1@h", "%23"),
        ("redis://:secret@[::1", "no name and no address"),
        ("redis://:secret℀@h", "no name and no address"),
        ("unix://:secret@", "path is missing"),
        ("redis://secret@h", "no password"),
    ],
)
def test_an_unusable_url_says_why(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value).replace(":password@", "")


@pytest.mark.parametrize("url", ["redi://anna:secret@host", "anna:secret@host"])
def test_a_scheme_that_nobody_knows_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="it starts with memory://") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_everything_is_verified_unless_the_url_says_otherwise(scheme: str) -> None:
    assert parse_address(f"{scheme}://h").tls == Tls()
    assert parse_address(f"{scheme}://h?ssl_check_hostname=no").tls == Tls(checks_name=False)
    assert parse_address(f"{scheme}://h?ssl_cert_reqs=none").tls == Tls(verifies=False)
    context = parse_address(f"{scheme}://h").tls_context()
    assert context is not None
    assert context.check_hostname
    assert parse_address("redis://h").tls_context() is None
