"""A limit over several worker processes, some of which are killed, stand still or stop."""

from __future__ import annotations

import signal
import time

import pytest

from tests.integration.programs.recording_app import Log
from tests.integration.support.worker_processes import LEASE, WorkerProcess, Workshop

STORES = [
    "sqlite",
    pytest.param("valkey-9.1", marks=pytest.mark.more),
    pytest.param("postgresql", marks=pytest.mark.more),
]

JOBS = 120
MOST = 3


@pytest.mark.parametrize("workshop", STORES, indirect=True)
async def test_killed_workers_never_let_more_jobs_run_than_the_limit_allows(workshop: Workshop) -> None:
    for _ in range(4):
        await workshop.start_ready()
    task = workshop.task("three_at_once")
    await workshop.app.enqueue_many([task.call(number) for number in range(JOBS)])
    for goal in (15, 45, 75):
        await workshop.until(lambda goal=goal: len(workshop.log.lines("finished")) >= goal, timeout=40)
        worker = next(worker for worker in workshop.workers if not worker.ended)
        worker.kill()
        workshop.log.write("killed", killed=worker.pid)
        await workshop.start_ready()
    await workshop.until(lambda: finished(workshop.log) == set(range(JOBS)), timeout=40)
    assert most_at_once(workshop.log) == MOST
    await workshop.until(lambda: is_idle(workshop))


@pytest.mark.more
@pytest.mark.timeout(300)
@pytest.mark.parametrize("workshop", ["sqlite", "valkey-9.1", "postgresql"], indirect=True)
async def test_a_limit_holds_whatever_happens_to_workers_and_server(workshop: Workshop) -> None:
    for _ in range(4):
        await workshop.start_ready()
    task, sent = workshop.task("three_at_once"), 0
    for harm in (kill, stand_still, terminate, restart_server, kill):
        jobs = range(sent, sent + JOBS)
        sent += JOBS
        await workshop.app.enqueue_many([task.call(number) for number in jobs])
        goal = len(finished(workshop.log)) + JOBS // 4
        await workshop.until(lambda goal=goal: len(finished(workshop.log)) >= goal, timeout=40)
        await harm(workshop, living(workshop))
    await workshop.until(lambda: finished(workshop.log) == set(range(sent)), timeout=60)
    assert most_at_once(workshop.log) == MOST
    await workshop.until(lambda: is_idle(workshop))
    for worker in workshop.workers:
        if not worker.ended:
            worker.send(signal.SIGTERM)
            assert worker.exit_code() == 0
    assert await is_idle(workshop)
    assert await left(workshop) == []


# --- what happens to workers and server -------------------------------------------------------------------


async def kill(workshop: Workshop, worker: WorkerProcess) -> None:
    worker.kill()
    workshop.log.write("killed", killed=worker.pid)
    await workshop.start_ready()


async def stand_still(workshop: Workshop, worker: WorkerProcess) -> None:
    """For longer than its lease: its runs do not count any more, and others may start instead of them."""
    await workshop.stop(worker)
    workshop.log.write("stopped", stopped=worker.pid)
    until = time.monotonic() + 2.5 * LEASE
    await workshop.until(lambda: time.monotonic() > until)
    worker.send(signal.SIGCONT)


async def terminate(workshop: Workshop, worker: WorkerProcess) -> None:
    worker.send(signal.SIGTERM)
    await workshop.start_ready()
    await workshop.until(lambda: worker.ended, timeout=40)
    assert worker.exit_code() == 0


async def restart_server(workshop: Workshop, worker: WorkerProcess) -> None:
    """A store in a file has none."""
    workshop.restart_server()


def living(workshop: Workshop) -> WorkerProcess:
    """The worker that runs longest, but none that stood still."""
    stopped = {line["stopped"] for line in workshop.log.lines("stopped")}
    return next(worker for worker in workshop.workers if not worker.ended and worker.pid not in stopped)


# --- what the log and the store say -----------------------------------------------------------------------


def finished(log: Log) -> set[int]:
    return {line["number"] for line in log.lines("finished")}


def most_at_once(log: Log) -> int:
    """How many jobs ran at the same time. A run of a killed worker ends with it. A worker that stood still
    is not counted any more: it may begin with a job that it claimed before and has lost."""
    running: set[tuple[int, int]] = set()
    stopped: set[int] = set()
    most = 0
    for line in log.lines():
        match line["what"]:
            case "began" if line["pid"] not in stopped:
                running.add((line["pid"], line["number"]))
                most = max(most, len(running))
            case "finished":
                running.discard((line["pid"], line["number"]))
            case "killed":
                running = {run for run in running if run[0] != line["killed"]}
            case "stopped":
                stopped.add(line["stopped"])
                running = {run for run in running if run[0] != line["stopped"]}
    return most


async def is_idle(workshop: Workshop) -> bool:
    """Every slot came back, also those of the killed workers."""
    (limit,) = await workshop.app.admin.limits()
    return limit.running == limit.waiting == 0


async def left(workshop: Workshop) -> list[str]:
    """The queues that hold anything."""
    queues = await workshop.app.admin.queues()
    return [
        queue.name
        for queue in queues
        if queue.queued or queue.running or queue.scheduled or queue.retrying or queue.dead
    ]
