"""rediss:// against a real server: who is trusted, and who is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.records.answers import Renewal
from headrace.stores import open_store
from tests.integration.support.certificates import Authority
from tests.integration.support.redis_bench import LONG, opened
from tests.support.servers import HOST, PORTS, Server, free_port, require


class Secured:
    """A server with a TLS port. Debian's is the one that is built with TLS."""

    def __init__(self, folder: Path, *, address: str = HOST, wants_certificate: bool = False) -> None:
        self.authority = Authority(folder / "certificates")
        self.port = free_port(PORTS)
        certificate, key = self.authority.sign("server", host="localhost", address=address)
        arguments = {
            "tls-port": self.port,
            "tls-cert-file": certificate,
            "tls-key-file": key,
            "tls-ca-cert-file": self.authority.certificate,
            "tls-auth-clients": "yes" if wants_certificate else "no",
        }
        words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
        self.server = Server(require("redis-7.0"), directory=folder / "server", arguments=words)

    def url(self, **options: object) -> str:
        given = {"ssl_ca_certs": self.authority.certificate, **options}
        return f"rediss://{HOST}:{self.port}/1?" + "&".join(
            f"{name}={value}" for name, value in given.items()
        )


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    secured = Secured(tmp_path)
    with secured.server:
        yield secured


async def works(url: str) -> None:
    """All four kinds of connections: writes, claims, announcements, renewals."""
    async with opened(url) as bench:
        [id] = await bench.add()
        [claim] = await bench.claim(wait=LONG)
        assert claim.id == id
        leases = bench.backend.lease_keeper()
        assert await leases.renew([claim]) == [Renewal.KEPT]
        await leases.close()


async def test_a_server_with_a_certificate_of_a_known_authority_is_trusted(secured: Secured) -> None:
    await works(secured.url())
    await works(secured.url().replace("rediss", "valkeys"))


async def test_a_server_of_an_unknown_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger")
    for url in (secured.url(ssl_ca_certs=stranger.certificate), f"rediss://{HOST}:{secured.port}"):
        with pytest.raises(ConfigurationError, match="ssl_ca_certs"):
            await open_store(url).open()
        leases = open_store(url).lease_keeper()
        with pytest.raises(BackendUnavailable, match="cannot be trusted"):
            await leases.renew([await a_claim(secured)])


async def test_a_server_of_another_name_is_refused_unless_the_url_allows_it(tmp_path: Path) -> None:
    secured = Secured(tmp_path, address="192.0.2.1")
    with secured.server:
        with pytest.raises(ConfigurationError, match="the host as the certificate does"):
            await open_store(secured.url()).open()
        await works(secured.url(ssl_check_hostname="false"))


async def test_nothing_is_verified_only_where_the_url_says_so(secured: Secured) -> None:
    await works(f"rediss://{HOST}:{secured.port}/1?ssl_cert_reqs=none")


async def test_a_server_that_wants_a_certificate_gets_it(tmp_path: Path) -> None:
    secured = Secured(tmp_path, wants_certificate=True)
    with secured.server:
        # Whether the alert or the reset arrives first is a matter of luck.
        with pytest.raises((ConfigurationError, BackendUnavailable), match="ssl_certfile"):
            await open_store(secured.url()).open()
        certificate, key = secured.authority.sign("client")
        await works(secured.url(ssl_certfile=certificate, ssl_keyfile=key))


async def test_tls_with_a_server_that_speaks_none_is_refused(secured: Secured) -> None:
    with pytest.raises(BackendUnavailable, match="check that it speaks TLS"):
        await open_store(f"rediss://{HOST}:{secured.server.port}").open()


async def test_a_certificate_that_is_no_file_is_refused_with_the_url() -> None:
    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.crt"):
        open_store("rediss://localhost?ssl_ca_certs=/nowhere/ca.crt")


async def a_claim(secured: Secured) -> Claim:
    async with opened(secured.url()) as bench:
        await bench.add()
        [claim] = await bench.claim()
        return claim
