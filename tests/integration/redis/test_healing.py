"""Keys that were deleted by hand are made again, quickly and without an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import HIGH, LOW, Message
from headrace.core.messages.outcome import DONE
from headrace.core.records.record import WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import advance, establish
from headrace.stores.redis.server import notices
from headrace.testing.contract.kit.heartbeats import beat
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, Bench, opened
from tests.support.server_groups import text_of
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: Five seconds, and what a busy machine takes.
SOON = 10.0

WORKER = WorkerInfo("worker", "host", 1, 1, ("work",), 10)


@pytest.fixture
async def bench(redis_server: Server) -> AsyncIterator[Bench]:
    async with opened(redis_server.url) as bench:
        yield bench


async def test_a_lease_that_was_flushed_is_stored_again_by_the_next_beat(
    bench: Bench, redis_server: Server
) -> None:
    await bench.backend.declare_stream(SOURCE, 300 * SECOND)
    redis_server.command("FLUSHALL")
    await beat(bench.backend, WORKER)
    assert (await beat(bench.backend, WORKER)).leases == {STREAM: 300 * SECOND}
    assert await bench.backend.streams() == [STREAM]


async def test_a_group_that_is_destroyed_again_and_again_is_told_of_once_a_second(
    bench: Bench, redis_server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "INTERVAL", 3600.0)
    key = f"{{{bench.namespace}:q:work}}:s:normal"
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    with caplog.at_level(logging.WARNING, logger="headrace"):
        for _ in range(20):
            await wait_until(
                lambda: (
                    bench.is_blocked() and redis_server.command("XGROUP", "DESTROY", key, "headrace") == 1
                ),
                timeout=SOON,
                message="the group is there again, and read",
            )
        ids = await bench.add()
        assert [claim.id for claim in await asyncio.wait_for(waiting, SOON)] == ids
    told = [record.getMessage() for record in caplog.records if "made again" in record.getMessage()]
    assert len(told) == 1


@pytest.mark.parametrize("command", ["FLUSHALL", "DEL", "XGROUP"])
async def test_a_waiting_claim_takes_what_comes_after_within_five_seconds(
    bench: Bench, redis_server: Server, command: str
) -> None:
    key = f"{{{bench.namespace}:q:work}}:s:normal"
    words = {"FLUSHALL": (), "DEL": (key,), "XGROUP": ("DESTROY", key, "headrace")}[command]
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    redis_server.command(command, *words)
    ids = await bench.add()
    assert [claim.id for claim in await asyncio.wait_for(waiting, SOON)] == ids


async def test_lanes_that_were_flushed_are_not_waited_for(bench: Bench, redis_server: Server) -> None:
    await bench.backend.append(bench.batch(Message(new_id(), "greet", b"hello", priority=HIGH)))
    await bench.settle(DONE, *await bench.claim())
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    redis_server.command("FLUSHALL")
    key = f"{{{bench.namespace}:q:work}}:s:normal"
    await wait_until(lambda: redis_server.command("EXISTS", key) == 1, message="its group is made again")
    await wait_until(lambda: blocks_for_a_second(redis_server), message="the claim waits in peace")
    ids = await bench.add()
    assert [claim.id for claim in await asyncio.wait_for(waiting, SOON)] == ids


async def test_lanes_of_which_nothing_is_known_any_more_are_found_again(
    bench: Bench, redis_server: Server
) -> None:
    messages = [Message(new_id(), "greet", b"hello", priority=priority) for priority in (HIGH, LOW)]
    await bench.backend.append(bench.batch(messages[0]))
    redis_server.command("DEL", f"{{{bench.namespace}:q:work}}:meta")
    await bench.backend.append(bench.batch(messages[1]))
    await beat(bench.backend, WORKER)
    assert [claim.id for claim in await bench.claim()] == [message.id for message in messages]


def blocks_for_a_second(server: Server) -> bool:
    clients = text_of(server, "CLIENT", "LIST").decode().splitlines()
    return any("cmd=xreadgroup" in client and " idle=1 " in client for client in clients)


async def test_a_schedule_whose_record_was_damaged_is_established_anew(
    bench: Bench, redis_server: Server
) -> None:
    store, keys = bench.backend, bench.backend._store.queue(STREAM).keys.all
    [key] = [each for each in keys if each.endswith(b"sched")]
    await store.swap_schedules([establish(STREAM, "often"), establish(STREAM, "daily")])
    redis_server.command("HSET", key, "l:often", "never", "f:often", "x", "t:often", b"\xff")
    assert [record.name for record in (await store.schedules([STREAM])).records] == ["daily"]
    [again] = await store.swap_schedules([establish(STREAM, "often")])
    assert again.done
    assert again.record in (await store.schedules([STREAM])).records
    # What else cannot be read does not keep a schedule from being fired.
    redis_server.command("HSET", key, "f:often", "x", "t:often", b"\xff")
    [record] = [each for each in (await store.schedules([STREAM])).records if each.name == "often"]
    [fired] = await store.swap_schedules([advance(record, record.last_us + 1, timing="a")])
    assert fired.done
    assert fired.record in (await store.schedules([STREAM])).records
