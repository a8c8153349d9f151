"""The watchdog of a connection, without a server."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.stores.redis.client import connection
from headrace.stores.redis.client.address import Address
from headrace.stores.redis.client.connection import Wire


class Nowhere(asyncio.Transport):
    """Takes everything and answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: object) -> None: ...

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
async def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """One whose requests are late as soon as they are sent."""
    monkeypatch.setattr(connection, "REPLY_TIMEOUT", -1.0)
    monkeypatch.setattr(connection, "SECOND_LOOK", 0.0)
    wire = Wire(Address(), "the server")
    wire.connection_made(Nowhere())
    return wire


async def test_an_answer_that_has_come_is_read_before_the_time_is_judged(wire: Wire) -> None:
    """After a loop was held up its timers may be called before its sockets are read, as uvloop does it."""
    answer = wire.send(b"PING")
    wire._watch()
    wire.data_received(b"+PONG\r\n")
    assert await answer == [b"PONG"]
    await asyncio.sleep(0)
    assert not wire.closed


async def test_a_request_that_stays_without_an_answer_ends_the_connection(wire: Wire) -> None:
    with pytest.raises(BackendUnavailable, match="did not answer in time") as caught:
        await wire.send(b"PING")
    assert caught.value.uncertain
    assert wire.closed


async def test_a_request_after_the_end_was_certainly_not_sent(wire: Wire) -> None:
    wire.close()
    with pytest.raises(BackendUnavailable) as caught:
        await wire.send(b"PING")
    assert not caught.value.uncertain


async def test_a_server_that_says_why_it_hangs_up_is_quoted(wire: Wire) -> None:
    answer = wire.send(b"PING")
    wire.data_received(b"-ERR max number of clients reached\r\n")
    wire.connection_lost(None)
    with pytest.raises(BackendUnavailable, match="maxclients"):
        await wire.send(b"PING")
    assert len(await answer) == 1


async def test_what_is_no_answer_ends_the_connection(wire: Wire) -> None:
    answer = wire.send(b"PING")
    wire.data_received(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(BackendUnavailable, match="sent what is no answer"):
        await answer
