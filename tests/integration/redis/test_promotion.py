"""200,000 jobs that are due at the same moment."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.engine.upkeep.promotion import PROMOTE_BATCH
from tests.integration.support.redis_bench import SOURCE, STREAM, Bench, opened
from tests.support.servers import Fleet

DUE_AT_ONCE = 200_000
CHUNK = 5_000

#: Microseconds.
DAY = 86_400_000_000


@pytest.mark.more
async def test_a_crowd_is_promoted_in_steps_that_let_others_through(servers: Fleet) -> None:
    server = servers.get("redis-7.0")
    async with opened(server.url) as bench:
        await schedule_all(bench)
        async with opened(server.url) as bystander:
            promoting = asyncio.create_task(promote_all(bench))
            pings = await ping_until(promoting, bystander)
        steps = await promoting
        assert max(steps) <= PROMOTE_BATCH
        assert pings > 100
        counts = await bench.backend.counts(STREAM)
        assert (counts.queued, counts.scheduled) == (DUE_AT_ONCE, 0)
        server.command("FLUSHALL")


async def schedule_all(bench: Bench) -> None:
    """All for the same moment of tomorrow, which then comes at once."""
    due_us = time.time_ns() // 1000 + DAY
    for number in range(DUE_AT_ONCE // CHUNK):
        messages = [Message(new_id(), "greet", b"hello", due_us=due_us) for _ in range(CHUNK)]
        await bench.backend.append(Batch(STREAM, "crowd", number + 1, messages))
    key = f"{{{bench.namespace}:q:work}}:due"
    await bench.command("ZUNIONSTORE", key, 1, key, "WEIGHTS", 0)


async def promote_all(bench: Bench) -> list[int]:
    """As a worker does it; answers how many jobs each step moved."""
    steps: list[int] = []
    while moved := (await bench.backend.promote([SOURCE], limit=PROMOTE_BATCH)).count:
        steps.append(moved)
    return steps


async def ping_until(done: asyncio.Task[list[int]], bench: Bench) -> int:
    """How many pings another client got answered."""
    answered = 0
    while not done.done():
        await bench.command("PING")
        answered += 1
    return answered
