"""Addresses of Redis servers, and what a server says of itself."""

from __future__ import annotations

import pytest
from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.stores import open_store
from headrace.stores.redis.client.address import Address, SentinelAddresses, Tls, parse_address
from headrace.stores.redis.server.faults import error_of
from headrace.stores.redis.server.server_info import check_server


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address()),
        ("redis://cache", Address("cache")),
        ("redis://cache:7000/2", Address("cache", 7000, database=2)),
        ("redis://cache/?db=2", Address("cache", database=2)),
        ("valkey://cache", Address("cache")),
        ("rediss://cache", Address("cache", tls=Tls())),
        ("redis://:s%40crt@cache", Address("cache", password="s@crt")),
        ("redis://anna:secret@cache", Address("cache", username="anna", password="secret")),
        ("redis://[::1]:7000", Address("::1", 7000)),
        ("unix:///run/redis.sock", Address(path="/run/redis.sock")),
        (
            "redis+sentinel://anna:secret@one,two:5,[::1]/jobs/2?sentinel_username=eve&sentinel_password=word",
            Address(
                "",
                username="anna",
                password="secret",
                database=2,
                sentinels=SentinelAddresses(
                    (("one", 26379), ("two", 5), ("::1", 26379)), "jobs", username="eve", password="word"
                ),
            ),
        ),
        (
            "rediss+sentinel://one/jobs",
            Address("", tls=Tls(), sentinels=SentinelAddresses((("one", 26379),), "jobs")),
        ),
        ("redis+cluster://one:7000,two", Address("", nodes=(("one", 7000), ("two", 6379)))),
        ("valkeys+cluster://one", Address("", tls=Tls(), nodes=(("one", 6379),))),
        (
            "unix://:secret@/run/redis.sock?db=3",
            Address(path="/run/redis.sock", password="secret", database=3),
        ),
    ],
)
def test_a_url_is_read(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        *(
            "redis://h:port",
            "redis://h/first",
            "redis://h/-1",
            "redis://h?pool=3",
            "unix://",
            "redis://anna@h",
        ),
        *("redis+sentinel://h", "redis+sentinel://h/jobs/first", "redis+sentinel://h,g:port/jobs"),
        *("redis+cluster://h/1", "redis+cluster://h?db=1", "redis+cluster://h,g:port"),
        "redis://h?sentinel_password=secret",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigurationError, match="write it like"):
        open_store(url)


def test_neither_text_nor_errors_show_a_password() -> None:
    address = parse_address("redis://anna:secret@cache:7000/2")
    assert f"{address} {address!r}" == "cache:7000/2 cache:7000/2"
    watched = parse_address("redis+sentinel://anna:secret@one/jobs?sentinel_password=secret")
    assert "secret" not in f"{watched} {watched!r} {watched.sentinels!r} {watched.title}"
    with pytest.raises(ConfigurationError) as caught:
        parse_address("redis://anna:secret@cache:port")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("namespace", ["", "a b", "{tag}", "a*"])
def test_a_namespace_that_would_break_keys_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        open_store("redis://", namespace=namespace)


def test_only_what_can_do_the_work_is_accepted() -> None:
    assert str(check_server("redis_version:6.2.0\r\nrun_id:abc\r\n", "it")) == "Redis 6.2.0"
    assert str(check_server("redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n", "it")) == "Valkey 9.1.2"
    assert check_server("redis_version:7.0.15\r\nrun_id:abc\r\n", "it").run_id == "abc"


@pytest.mark.parametrize(
    ("info", "remedy"),
    [
        ("redis_version:6.0.16", "6.2"),
        ("redis_version:7.0.0\r\nmaxmemory_policy:allkeys-lru", "noeviction"),
        ("redis_version:7.0.0\r\ncluster_enabled:1", "cluster"),
    ],
)
def test_what_cannot_is_refused_with_a_remedy(info: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        check_server(info, "it")


@pytest.mark.parametrize(
    ("text", "meaning", "transient"),
    [
        ("LOADING Redis is loading the dataset in memory", "loading", True),
        ("READONLY You can't write against a read only replica.", "replica", True),
        ("BUSY Redis is busy running a script", "busy", True),
        ("MISCONF Redis is configured to save RDB snapshots", "disk", False),
        ("OOM command not allowed when used memory > 'maxmemory'.", "memory", False),
        (
            "ERR Error running script (call to f_1): @user_script: 12: -OOM command not allowed",
            "memory",
            False,
        ),
        ("NOPERM this user has no permissions", "permission", False),
        ("ERR something new", "an error", False),
    ],
)
def test_errors_of_a_server_say_what_they_mean(text: str, meaning: str, transient: bool) -> None:
    error = error_of(ReplyError(text), "it")
    assert isinstance(error, BackendUnavailable)
    assert meaning in str(error)
    assert error.transient is transient
