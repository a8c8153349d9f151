"""200,000 jobs that are due at the same moment."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.engine.upkeep.promotion import PROMOTE_BATCH
from tests.integration.support.redis_bench import SOURCE, STREAM, Bench, opened
from tests.support.servers import Fleet, Server

DUE_AT_ONCE = 200_000
CHUNK = 5_000

#: Microseconds.
DAY = 86_400_000_000

#: Milliseconds that one script may take on a machine that others use too; alone it is a tenth of that.
LONGEST = 50.0


@pytest.mark.more
async def test_a_crowd_is_promoted_in_steps_that_let_others_through(servers: Fleet) -> None:
    server = servers.get("redis-7.0")
    async with opened(server.url) as bench:
        await schedule_all(bench)
        server.command("CONFIG", "SET", "slowlog-log-slower-than", int(LONGEST * 1000))
        server.command("SLOWLOG", "RESET")
        server.command("CONFIG", "RESETSTAT")
        async with opened(server.url) as bystander:
            promoting = asyncio.create_task(promote_all(bench))
            pings = await ping_until(promoting, bystander)
        seconds = await promoting
        slow = server.command("SLOWLOG", "LEN")
        mean = mean_of(server, "evalsha")
        server.command("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        print(
            f"{DUE_AT_ONCE:,} promoted in {seconds:.1f} s, {mean:.0f} µs a script at the mean;"
            f" {len(pings):,} pings meanwhile, the longest {max(pings) * 1000:.1f} ms"
        )
        assert slow == 0
        assert len(pings) > 100
        assert max(pings) < 1.0
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


async def promote_all(bench: Bench) -> float:
    """As a worker does it; answers the seconds."""
    since = time.monotonic()
    while (await bench.backend.promote([SOURCE], limit=PROMOTE_BATCH)).count:
        pass
    return time.monotonic() - since


async def ping_until(done: asyncio.Task[float], bench: Bench) -> list[float]:
    times: list[float] = []
    while not done.done():
        since = time.monotonic()
        await bench.command("PING")
        times.append(time.monotonic() - since)
    return times


def mean_of(server: Server, command: str) -> float:
    stats = server.command("INFO", "commandstats")
    assert isinstance(stats, bytes)
    line = next(line for line in stats.decode().splitlines() if line.startswith(f"cmdstat_{command}:"))
    return float(line.split("usec_per_call=")[1].split(",")[0])
