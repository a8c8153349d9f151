"""What a producer and a reader can still do under their access lists, as docs/concepts/redis.md says it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.stores.redis.health.permissions import Role, rules_for
from tests.support.routers import open_router
from tests.support.servers import HOST, Server, ServerError, ask, require, rows
from tests.support.waiting import wait_until_sync

OURS, THEIRS = "{headrace:q:work}:msg", "other:secret"

#: How a server refuses, and how its scripts do.
DENIED = ("NOPERM", "can't run this", "can't access", "ACL failure")

#: What is for neither of them.
FOREIGN = (
    *("XREADGROUP GROUP g c STREAMS {headrace:q:work}:n >", "XACK {headrace:q:work}:n g 0-1"),
    *("UNLINK headrace:x", "FLUSHALL", "CONFIG GET *", "CLIENT LIST", "CLIENT KILL ID 1", "ACL LIST"),
    *("MONITOR", "SCRIPT FLUSH", "SCRIPT KILL", "EVAL return 0"),
)

#: Milliseconds after which a server says that it is busy with a script.
BUSY_AFTER = 50


class User:
    """A connection with the rights of a role."""

    def __init__(self, server: Server, role: Role) -> None:
        server.command("ACL", "SETUSER", role, "on", ">secret", *rules_for("headrace", role).split())
        self.socket = socket.create_connection((HOST, server.port), timeout=20)
        self("AUTH", role, "secret")

    def __call__(self, *words: str | bytes | int) -> Any:
        return ask(self.socket, *words)

    def may(self, *words: str | bytes | int) -> bool:
        try:
            self(*words)
        except ServerError as error:
            if not any(said in str(error) for said in DENIED):
                raise
            return False
        return True

    def may_run(self, source: str) -> bool:
        return self.may("EVALSHA", self("SCRIPT", "LOAD", source), 0)


@pytest.fixture(params=rows())
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """One of its own: some of this would hold up the others."""
    with Server(require(request.param), directory=tmp_path) as server:
        server.command("CONFIG", "SET", "lua-time-limit", BUSY_AFTER)
        server.command("HSET", OURS, "id", "payload")
        server.command("SET", THEIRS, "x")
        yield server
        if server.running:
            server.kill()


@contextmanager
def user(server: Server, role: Role) -> Iterator[User]:
    one = User(server, role)
    try:
        yield one
    finally:
        one.socket.close()


@pytest.mark.parametrize("role", ["reader", "producer"])
def test_both_read_all_of_the_namespace_and_nothing_else(server: Server, role: Role) -> None:
    with user(server, role) as one:
        assert one("HGET", OURS, "id") == b"payload"
        assert not one.may("GET", THEIRS)
        assert not one.may_run(f"return redis.call('GET', '{THEIRS}')")
        assert one("SELECT", 1) == b"OK"  # the rules hold in every database
        assert one.may("HGET", OURS, "id")
        assert one.may("SUBSCRIBE", "headrace:anything")


def test_a_reader_sees_the_names_of_all_keys_and_a_producer_does_not(server: Server) -> None:
    with user(server, "reader") as reader, user(server, "producer") as producer:
        assert THEIRS.encode() in reader("SCAN", 0, "COUNT", 1000)[1]
        assert not producer.may("SCAN", 0)


def test_a_reader_writes_nothing_and_a_producer_anything_of_the_namespace(server: Server) -> None:
    with user(server, "reader") as reader, user(server, "producer") as producer:
        assert not reader.may("HSET", OURS, "id", "forged")
        assert not reader.may_run(f"return redis.call('DEL', '{OURS}')")
        assert not reader.may("PUBLISH", "headrace:anything", "forged")
        assert producer.may("HSET", OURS, "id", "forged")
        assert producer.may("PUBLISH", "headrace:anything", "forged")
        assert producer.may_run(f"return redis.call('DEL', '{OURS}')")
        assert not producer.may("SET", THEIRS, "forged")
        assert not producer.may("PUBLISH", "other", "forged")


@pytest.mark.parametrize("role", ["reader", "producer"])
def test_neither_takes_work_nor_rules_the_server(server: Server, role: Role) -> None:
    with user(server, role) as one:
        assert [words for words in FOREIGN if one.may(*words.split())] == []


async def test_a_producer_pauses_a_queue_for_all(server: Server) -> None:
    User(server, "producer").socket.close()
    stream = Stream("queue", "work")
    store = open_router(f"redis://producer:secret@{HOST}:{server.port}")
    await store.open()
    await store.append(Batch(stream, new_id(), 1, [Message(new_id(), "greet", b"")]))
    await store.pause(stream, paused=True)
    assert (await store.counts(stream)).paused
    await store.close()


@pytest.mark.parametrize("role", ["reader", "producer"])
def test_both_end_the_waits_of_other_clients_by_their_numbers(server: Server, role: Role) -> None:
    with socket.create_connection((HOST, server.port), timeout=20) as other, user(server, role) as one:
        id = ask(other, "CLIENT", "ID")
        assert isinstance(id, int)
        other.sendall(b"*3\r\n$5\r\nBLPOP\r\n$7\r\nwaiting\r\n$1\r\n0\r\n")
        wait_until_sync(lambda: one("CLIENT", "UNBLOCK", id) == 1)
        assert other.recv(100) == b"*-1\r\n"


@pytest.mark.parametrize(("role", "ended"), [("reader", True), ("producer", False)])
def test_both_hold_up_the_server_with_a_script(server: Server, role: Role, ended: bool) -> None:
    writes = "redis.call('SET', 'headrace:x', 1)" if role == "producer" else ""
    with user(server, role) as one:
        digest = one("SCRIPT", "LOAD", f"{writes} while true do end")
        one.socket.sendall(b"*3\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n0\r\n" % digest)
        wait_until_sync(lambda: _says(server, "BUSY", "GET", THEIRS))
        # One that has written is not to be ended: then only the whole server is.
        assert _says(server, "UNKILLABLE", "SCRIPT", "KILL") is not ended


def _says(server: Server, code: str, *words: str) -> bool:
    try:
        server.command(*words)
    except ServerError as error:
        return str(error).startswith(code)
    return False
