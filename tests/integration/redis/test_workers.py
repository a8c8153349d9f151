"""Workers and producers on one server: killed under load, and with clocks that are wrong."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from headrace import JobStatus
from tests.integration.support.worker_processes import LEASE, Workshop

HOUR = 3600.0

pytestmark = pytest.mark.parametrize("workshop", ["redis-7.0"], indirect=True)


async def test_each_job_that_a_killed_producer_had_accepted_runs_once(workshop: Workshop) -> None:
    await workshop.start_ready(lease=None)
    await workshop.start_ready(lease=None)
    for first in (0, 100_000, 200_000, 300_000):
        feeder = workshop.start_feeder(first)
        goal = first + 200
        await workshop.until(lambda goal=goal: goal in _accepted(workshop))
        feeder.kill()  # very likely amid a batch
    accepted = _accepted(workshop)
    await workshop.until(lambda: _runs(workshop).keys() >= accepted)
    await workshop.until(lambda: _is_drained(workshop))
    # What the producer did not hear of may have been accepted too, but nothing twice.
    assert set(_runs(workshop).values()) == {1}


@pytest.mark.more
async def test_workers_killed_while_producers_go_on_lose_nothing(workshop: Workshop) -> None:
    feeders = [workshop.start_feeder(first) for first in (0, 100_000)]
    await workshop.start_ready()
    killed: set[int] = set()
    for round_number in range(3):
        worker = await workshop.start_ready()
        before = len(workshop.log.lines("quick", pid=worker.pid))
        goal = before + 200 * (round_number + 1)
        await workshop.until(lambda pid=worker.pid, goal=goal: _count(workshop, pid) >= goal)
        worker.kill()
        killed.add(worker.pid)
    for feeder in feeders:
        feeder.kill()
    accepted = _accepted(workshop)
    await workshop.until(lambda: _runs(workshop).keys() >= accepted, timeout=40)
    await workshop.until(lambda: _is_drained(workshop))
    # Once more for each killed worker that had it.
    explained = Counter(line["number"] for line in workshop.log.lines("quick") if line["pid"] in killed)
    assert {number for number, runs in _runs(workshop).items() if runs > 1 + explained[number]} == set()
    unexplained = [line["number"] for line in workshop.log.lines("quick") if line["pid"] not in killed]
    assert len(unexplained) == len(set(unexplained))


@pytest.mark.more
async def test_refusals_of_writes_for_longer_than_a_lease_cost_nobody_a_job(workshop: Workshop) -> None:
    lease = 4 * LEASE  # far longer than loops wait between two tries
    await workshop.start_ready(lease=lease)
    naps = [await workshop.task("nap").enqueue(3 * lease) for _ in range(10)]
    await workshop.until(lambda: len(workshop.log.lines("started")) == len(naps))
    for _ in range(2):
        await workshop.start_ready(lease=lease)  # they could take them
    workshop.server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    back_at = time.monotonic() + 1.4 * lease
    await workshop.until(lambda: time.monotonic() >= back_at)
    workshop.server.command("CONFIG", "SET", "min-replicas-to-write", "0")
    for nap in naps:
        assert await nap.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started")) == len(naps)
    assert workshop.log.lines("lost") == []


async def test_all_jobs_of_a_killed_worker_run_again_at_once(workshop: Workshop) -> None:
    killed = await workshop.start_ready()
    naps = [await workshop.task("nap").enqueue(3600) for _ in range(12)]
    await workshop.until(lambda: len(workshop.log.lines("started")) == len(naps))
    other = await workshop.start_ready()
    killed.kill()
    await workshop.until(lambda: len(workshop.log.lines("started", pid=other.pid)) == len(naps))
    times = [line["at"] for line in workshop.log.lines("started", pid=other.pid)]
    assert max(times) - min(times) < 6 * LEASE, "not one after the other"


async def test_a_second_sigterm_ends_a_worker_whose_store_hangs(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--grace", "60", lease=None)
    job = await workshop.task("nap").enqueue(3600)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    os.kill(workshop.server.pid, signal.SIGSTOP)
    try:
        worker.send(signal.SIGTERM)
        await workshop.until(lambda: "stopping: 1 running" in worker.output)
        worker.send(signal.SIGTERM)
        asked_at = time.monotonic()
        assert worker.exit_code(10) == 0
        assert time.monotonic() - asked_at < 8  # 2 s, and what a busy machine takes to notice
    finally:
        os.kill(workshop.server.pid, signal.SIGCONT)


async def test_workers_whose_clocks_are_an_hour_off_keep_their_leases_and_times(workshop: Workshop) -> None:
    lease = 3 * LEASE  # longer than a busy machine stops a process
    for clock in (HOUR, -HOUR):
        # Too few slots for one worker to hold all four naps, even when it is the faster one.
        await workshop.start_ready("--concurrency", "3", lease=lease, clock=clock)
    asked_at = time.time()
    delayed = await workshop.task("quick").with_(delay=1.0).enqueue(1)
    fresh = await workshop.task("quick").with_(expires=30).enqueue(2)
    naps = [await workshop.task("nap").enqueue(2 * lease) for _ in range(4)]
    limited = await workshop.task("nap").with_(timeout=60).enqueue(0.1)
    assert await fresh.result(timeout=10) == 2
    assert await limited.result(timeout=10) == "rested"
    assert await delayed.result(timeout=10) == 1
    assert workshop.log.lines("quick", number=1)[0]["at"] - asked_at >= 1.0
    for nap in naps:
        assert await nap.result(timeout=20) == "rested"
        assert len(workshop.log.lines("started", id=nap.id)) == 1
        info = await nap.info()
        assert (info.status, info.crashes) == (JobStatus.SUCCEEDED, 0)
    assert len({line["pid"] for line in workshop.log.lines("started")}) == 2
    assert workshop.log.lines("lost") == []


def _accepted(workshop: Workshop) -> set[int]:
    return {number for line in workshop.log.lines("accepted") for number in line["numbers"]}


def _runs(workshop: Workshop) -> Counter[int]:
    return Counter(line["number"] for line in workshop.log.lines("quick"))


def _count(workshop: Workshop, pid: int) -> int:
    return len(workshop.log.lines("quick", pid=pid))


async def _is_drained(workshop: Workshop) -> bool:
    [queue] = await workshop.app.admin.queues()
    return queue.queued + queue.running + queue.retrying == 0
