"""Readers of a topic have connections of their own on Redis. Most readers end without closing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.topics.topic import BEGINNING
from headrace.stores.redis.topics import topic_verbs
from tests.integration.support.redis_bench import LONG, Bench, opened
from tests.support.servers import Server
from tests.support.waiting import wait_until

TOPIC = Stream("topic", "orders")


@pytest.fixture
async def bench(redis_server: Server) -> AsyncIterator[Bench]:
    async with opened(redis_server.url) as bench:
        yield bench


async def _connections(bench: Bench) -> int:
    """Those that have waited for events, of any process."""
    clients = (await bench.command("CLIENT", "LIST")).decode()
    return sum("cmd=xread " in line for line in clients.splitlines())


async def _publish(bench: Bench, number: int) -> None:
    message = Message(new_id(), "placed", b"hello")
    await bench.backend.append(Batch(TOPIC, f"producer-{id(bench)}", number, [message]))


async def test_the_connection_of_one_who_reads_no_more_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_verbs, "TAIL_KEPT", 0.0)
    await _publish(bench, 1)
    others = await _connections(bench)
    for number in range(5):
        reading = asyncio.create_task(
            bench.backend.read(TOPIC, number + 1, consumer=f"tail-{number}", limit=10, wait=LONG)
        )

        async def waits() -> bool:
            return await _connections(bench) > others

        await wait_until(waits)
        await _publish(bench, number + 2)
        assert len((await reading).entries) == 1
        # The next one to come sees that this one has gone.
        await bench.backend.read(TOPIC, BEGINNING, consumer=f"look-{number}", limit=1, wait=0.0)

        async def is_given_up() -> bool:
            return await _connections(bench) == others

        await wait_until(is_given_up)


async def test_the_connection_of_one_who_waits_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_verbs, "TAIL_KEPT", 0.0)
    await _publish(bench, 1)
    waiting = asyncio.create_task(bench.backend.read(TOPIC, 1, consumer="waiting", limit=10, wait=LONG))

    async def waits() -> bool:
        return await _connections(bench) > 0

    await wait_until(waits)
    await bench.backend.read(TOPIC, BEGINNING, consumer="other", limit=1, wait=0.0)
    await _publish(bench, 2)
    assert len((await waiting).entries) == 1


async def test_one_who_only_reads_is_woken_without_a_claim(bench: Bench) -> None:
    await _publish(bench, 1)
    await bench.backend.read(TOPIC, BEGINNING, consumer="reader", limit=1, wait=0.0)
    bench.backend.wake("reader")
    assert (await bench.backend.read(TOPIC, 1, consumer="reader", limit=1, wait=LONG)).entries == ()
    clients = (await bench.command("CLIENT", "LIST")).decode()
    assert "cmd=xreadgroup " not in clients
