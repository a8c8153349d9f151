"""A server under load: killed, emptied, robbed of its groups, scripts and clients, and badly connected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace import JobStatus
from headrace.stores.redis import scripts
from headrace.stores.redis.keys import GROUP, LANES
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import WorkerProcess, Workshop
from tests.support.servers import Server, also

on_oldest_and_newest = pytest.mark.parametrize("workshop", ["valkey-9.1", *also("redis-6.2")], indirect=True)
on_redis_6 = pytest.mark.parametrize("workshop", ["redis-6.2"], indirect=True)
on_redis_7 = pytest.mark.parametrize("workshop", ["redis-7.0"], indirect=True)
on_valkey = pytest.mark.parametrize("workshop", ["valkey-9.1"], indirect=True)

#: Seconds within which work goes on once the store can be used, and a dead connection is noticed.
SOON, NOTICED = 10.0, 15.0

#: A lease where every job must run once: longer than a busy machine stops a process.
LONGER_LEASE = 2.0


class Quiet:
    """Checks that workers write a line or two at first and at most one a second while something is wrong."""

    def __init__(self, *workers: WorkerProcess) -> None:
        self._workers = workers
        self._lines = [len(worker.output.splitlines()) for worker in workers]
        self._since = time.monotonic()

    def check(self) -> None:
        seconds = time.monotonic() - self._since
        for worker, before in zip(self._workers, self._lines, strict=True):
            lines = worker.output.splitlines()[before:]
            assert len(lines) <= seconds + 2, "\n".join(lines)


# --- the server is killed --------------------------------------------------------------------------------


@pytest.mark.parametrize("workshop", ["valkey-9.1", *also("redis-7.0")], indirect=True)
@pytest.mark.parametrize("away", [0.0, 2.5 * LONGER_LEASE], ids=["for a moment", "for longer than a lease"])
async def test_a_server_killed_and_restarted_loses_and_doubles_nothing(
    workshop: Workshop, away: float
) -> None:
    workers = [await workshop.start_ready(lease=LONGER_LEASE) for _ in range(2)]
    naps = [await workshop.task("nap").enqueue(1.0 + away) for _ in range(4)]
    await workshop.until(lambda: len(workshop.log.lines("started")) == 4)
    async with Load(workshop) as load:
        quiet = Quiet(*workers)
        workshop.server.kill()
        back_at = time.monotonic() + away
        await workshop.until(lambda: time.monotonic() >= back_at)
        workshop.server.start()
        assert await load.until_work_goes_on(time.time()) <= SOON
        await load.until_accepted(100)
    await load.until_all_ran()
    assert set(load.runs().values()) == {1}
    for nap in naps:
        assert await nap.result(timeout=10) == "rested"
        assert len(workshop.log.lines("started", id=nap.id)) == 1
    assert workshop.log.lines("lost") == []
    quiet.check()


@on_valkey
async def test_with_a_file_written_each_second_only_the_last_moments_before_a_crash_can_be_lost(
    workshop: Workshop,
) -> None:
    workshop.server.command("CONFIG", "SET", "appendfsync", "everysec")
    await workshop.start_ready()
    await workshop.start_ready()
    async with Load(workshop) as load:
        await load.until_accepted(100)
        killed_at = time.time()
        workshop.server.kill()
        workshop.server.start()
        assert await load.until_work_goes_on(time.time()) <= SOON
    safe = {number for number, at in load.accepted.items() if not killed_at - 2 < at <= killed_at}
    await workshop.until(lambda: load.runs().keys() >= safe)


# --- the server forgets ----------------------------------------------------------------------------------


def _flush_all(server: Server) -> None:
    server.command("FLUSHALL")


def _delete_lanes(server: Server) -> None:
    server.command("DEL", *_lanes())


def _destroy_groups(server: Server) -> None:
    for key in _lanes():
        if server.command("EXISTS", key):  # a lane is made when it is first used
            server.command("XGROUP", "DESTROY", key, GROUP)


def _flush_scripts(server: Server) -> None:
    server.command("SCRIPT", "FLUSH")


def _kill_clients(server: Server) -> None:
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind)


def _lanes() -> list[str]:
    return [f"{{headrace:q:default}}:s:{lane}" for lane in LANES]


@on_oldest_and_newest
@pytest.mark.parametrize("harm", [_flush_all, _delete_lanes, _destroy_groups, _flush_scripts, _kill_clients])
async def test_what_was_not_deleted_is_not_lost_and_work_goes_on(
    workshop: Workshop, harm: Callable[[Server], None]
) -> None:
    workers = [await workshop.start_ready(lease=10.0) for _ in range(2)]  # none runs out
    delayed = await workshop.task("quick").with_(delay=1.5).enqueue(-1)
    before: set[int] = set()
    async with Load(workshop) as load:
        quiet = Quiet(*workers)
        for _ in range(3):
            before = set(load.accepted)
            harm(workshop.server)
            assert await load.until_work_goes_on(time.time()) <= SOON
        await load.until_accepted(50)
    runs = await _all_that_must_run(workshop, load, harm, before)
    if harm is not _flush_all:
        await workshop.until(lambda: load.runs()[-1] == 1)
        assert await delayed.result(timeout=10) == -1
    if harm in (_flush_scripts, _kill_clients):  # the others make the server hand out again what is held
        assert set(runs.values()) == {1}
    quiet.check()


async def _all_that_must_run(
    workshop: Workshop, load: Load, harm: Callable[[Server], None], before: set[int]
) -> dict[int, int]:
    """Everything, or where messages were deleted all that was accepted after the last time."""
    deleted = before if harm in (_flush_all, _delete_lanes) else set()
    # A request that was under way at that moment may have come before it or after it.
    borderline = {max(before) + 1} if deleted else set()
    must = load.accepted.keys() - deleted - borderline
    await workshop.until(lambda: load.runs().keys() >= must)
    return {number: runs for number, runs in load.runs().items() if number >= 0}


# --- bad connections -------------------------------------------------------------------------------------


@pytest.fixture
async def proxy(workshop: Workshop) -> AsyncIterator[Proxy]:
    async with Proxy(workshop.server.port) as proxy:
        yield proxy


@on_redis_7
async def test_half_open_connections_are_noticed_and_the_jobs_under_way_run_once(
    workshop: Workshop, proxy: Proxy
) -> None:
    worker = await workshop.start_ready(lease=None, url=proxy.url)
    nap = await workshop.task("nap").enqueue(1.0)
    await workshop.until(lambda: workshop.log.lines("started", id=nap.id))
    quiet = Quiet(worker)
    held_at = time.time()
    proxy.hold_standing()
    job = await workshop.task("quick").enqueue(1)
    assert await job.result(timeout=20) == 1
    assert workshop.log.lines("quick", number=1)[0]["at"] - held_at <= NOTICED
    assert await nap.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started", id=nap.id)) == 1
    quiet.check()


@on_redis_6
async def test_a_worker_in_a_black_hole_is_replaced_and_told_when_it_is_back(
    workshop: Workshop, proxy: Proxy
) -> None:
    lonely = await workshop.start_ready(url=proxy.url)
    job = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    proxy.hold()
    other = await workshop.start_ready()
    assert await job.result(timeout=20) == "done"

    released_at = time.time()
    proxy.release()
    await workshop.until(lambda: workshop.log.lines("lost", id=job.id, pid=lonely.pid))
    assert workshop.log.lines("lost", id=job.id)[0]["at"] - released_at <= NOTICED
    assert [run["pid"] for run in workshop.log.lines("started", id=job.id)] == [lonely.pid, other.pid]
    assert await job.status() is JobStatus.SUCCEEDED
    other.kill()
    assert await (await workshop.task("quick").enqueue(1)).result(timeout=20) == 1


@on_valkey
@pytest.mark.parametrize("way", [{"delay": 0.03}, {"piece": 1}], ids=["slow", "one byte at a time"])
async def test_a_bad_link_does_the_same_work_later(
    workshop: Workshop, proxy: Proxy, way: dict[str, Any]
) -> None:
    for script in vars(scripts).values():  # they are long, and brought to a server once in its life
        if isinstance(script, scripts.Script):
            workshop.server.command("SCRIPT", "LOAD", script.source)
    for name, value in way.items():
        setattr(proxy, name, value)
    await workshop.start_ready(lease=LONGER_LEASE, url=proxy.url)
    far = Workshop(proxy.url, workshop.log.path.parent)
    try:
        nap = await far.task("nap").enqueue(2.5 * LONGER_LEASE)
        jobs = await far.app.enqueue_many([far.task("quick").call(number) for number in range(20)])
        results = await asyncio.gather(*(job.result(timeout=30) for job in jobs))
        assert results == list(range(20))
        assert await nap.result(timeout=30) == "rested"
    finally:
        await far.close()
    assert sorted(line["number"] for line in workshop.log.lines("quick")) == list(range(20))
    assert len(workshop.log.lines("started", id=nap.id)) == 1
