"""200,000 jobs that are due at the same moment, and calls that find nothing."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.topics.topic import TopicRules
from headrace.engine.upkeep.promotion import PROMOTE_BATCH
from headrace.stores.redis.scripts import ISSUE_DUE_EVENTS, PROMOTE, Script
from tests.integration.support.redis_bench import SOURCE, STREAM, Bench, opened
from tests.support.servers import Fleet, Server

DUE_AT_ONCE = 200_000
CHUNK = 5_000

#: Microseconds.
DAY = 86_400_000_000

#: Bytes of Lua's memory that a call may take when nothing is due. With the functions for what is due, which
#: it does not need, it takes 14,000.
QUIET_CALL = 3000

#: The same of a call that queues one plain job. With the functions for constraints it takes 18,000.
PLAIN_CALL = 9000

#: The least of so many calls counts. One of them may also do what is done every few seconds, or make the
#: table larger in which Lua keeps its texts.
MEASURED_CALLS = 5

#: Runs a script, and says how much memory that took.
MEASURED = b"""
    collectgarbage('stop')
    local before = collectgarbage('count')
    local function call()
    %b
    end
    local answer = call()
    local used = collectgarbage('count') - before
    collectgarbage('restart')
    return { answer[1], used * 1024 }
"""


@pytest.fixture
async def bench(redis_server: Server) -> AsyncIterator[Bench]:
    async with opened(redis_server.url) as bench:
        yield bench


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


async def test_a_promotion_that_finds_nothing_makes_no_functions_for_others(bench: Bench) -> None:
    """Each of 300 workers asks now and then, while one of them finds what is due."""
    await bench.backend.append(bench.batch(Message(new_id(), "greet", b"hello", due_us=later_us())))
    assert await bytes_used(bench, PROMOTE, STREAM, PROMOTE_BATCH, 1 << 20) < QUIET_CALL


async def test_a_promotion_of_a_plain_job_makes_no_functions_for_constraints(bench: Bench) -> None:
    """While delayed jobs become due all the time, most promotions find one or two of them."""
    due = [Message(new_id(), "greet", b"hello", due_us=later_us()) for _ in range(MEASURED_CALLS)]
    later = Message(new_id(), "greet", b"hello", due_us=later_us())
    await bench.backend.append(bench.batch(*due, later))
    await bench.backend.promote([STREAM], limit=PROMOTE_BATCH)  # does what is done every few seconds
    used = []
    for message in due:
        await bench.command("ZADD", f"{{{bench.namespace}:q:work}}:due", 1, message.id)
        used.append(await bytes_used_once(bench, 1, PROMOTE, STREAM, PROMOTE_BATCH, 1 << 20))
    assert min(used) < PLAIN_CALL


async def test_a_worker_that_knows_of_scheduled_jobs_runs_no_script_until_one_is_due(
    bench: Bench, redis_server: Server
) -> None:
    """Most calls of a large fleet come after another worker has promoted what was due."""
    first, later = [Message(new_id(), "greet", b"hello", due_us=later_us()) for _ in range(2)]
    await bench.backend.append(bench.batch(first, later))
    await bench.backend.promote([STREAM], limit=PROMOTE_BATCH)
    before = scripts_run(redis_server)
    answers = [await bench.backend.promote([STREAM], limit=PROMOTE_BATCH) for _ in range(20)]
    assert scripts_run(redis_server) - before < 10  # every few seconds one mends what was deleted by hand
    assert {answer.count for answer in answers} == {0}
    assert all(0 < answer.by_stream[STREAM] <= DAY for answer in answers)
    await bench.command("ZADD", f"{{{bench.namespace}:q:work}}:due", 1, first.id)
    assert (await bench.backend.promote([STREAM], limit=PROMOTE_BATCH)).count == 1


async def test_a_look_for_events_that_finds_nothing_makes_no_functions_for_others(bench: Bench) -> None:
    topic = Stream("topic", "orders")
    await bench.backend.declare_topic(topic, TopicRules())
    events = [Message(new_id(), "", b"hello", due_us=later_us())]
    await bench.backend.append(Batch(topic, "producer", 1, events))
    assert await bytes_used(bench, ISSUE_DUE_EVENTS, topic, PROMOTE_BATCH, 1 << 20, "") < QUIET_CALL


async def test_an_answer_tells_whether_another_worker_has_promoted(bench: Bench) -> None:
    """What was due may also have been cancelled. Then the worker that asks first was not too late."""
    cancelled, kept = [Message(new_id(), "greet", b"hello", due_us=later_us()) for _ in range(2)]
    await bench.backend.append(bench.batch(cancelled, kept))
    before = await promotions(bench)
    await bench.backend.cancel(STREAM, cancelled.id, ttl_us=0)
    assert await promotions(bench) == before
    await bench.command("ZADD", f"{{{bench.namespace}:q:work}}:due", 1, kept.id)
    assert await promotions(bench) != before
    await bench.claim()
    assert await promotions(bench) == before + 1  # also when nothing is left


def scripts_run(server: Server) -> int:
    """As the server counts them."""
    found = server.command("INFO", "commandstats")
    assert isinstance(found, bytes)
    calls = re.search(rb"^cmdstat_evalsha:calls=(\d+)", found, re.MULTILINE)
    return int(calls[1]) if calls else 0


async def promotions(bench: Bench) -> int:
    number: int = (await bench.backend.promote([STREAM], limit=PROMOTE_BATCH)).promotions[STREAM]
    return number


def later_us() -> int:
    return time.time_ns() // 1000 + DAY


async def bytes_used(bench: Bench, script: Script, stream: Stream, *args: int | str) -> int:
    """How many bytes of Lua's memory a call of the script takes that finds nothing."""
    return min([await bytes_used_once(bench, 0, script, stream, *args) for _ in range(MEASURED_CALLS)])


async def bytes_used_once(bench: Bench, found: int, script: Script, stream: Stream, *args: int | str) -> int:
    """How many bytes of Lua's memory one call of the script takes that finds so much."""
    store = bench.backend._store
    count, used = await store.run(store.queue(stream).call(measured(script), *args))
    assert count == found
    return int(used)


def measured(script: Script) -> Script:
    """The script, with the memory that it takes in its answer."""
    source = MEASURED % script.source
    digest = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return msgspec.structs.replace(script, source=source, digest=digest)


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
