"""Real worker processes on one store: killed, stopped, told to end; nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import time
from typing import Any

import pytest

from headrace import Job, JobStatus
from tests.integration.programs.recording_app import STORE
from tests.integration.support.worker_processes import LEASE, WorkerProcess, Workshop
from tests.support.servers import also

RESTARTED = "tests.integration.programs.restarted_tasks"

pytestmark = pytest.mark.parametrize("workshop", ["sqlite", *also("redis-6.2")], indirect=True)


async def test_the_job_of_a_worker_killed_mid_run_runs_again_elsewhere(workshop: Workshop) -> None:
    first = await workshop.start_ready()
    job = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    first.kill()
    second = await workshop.start_ready()

    assert await job.result(timeout=20) == "done"
    runs = workshop.log.lines("started", id=job.id)
    assert [run["pid"] for run in runs] == [first.pid, second.pid]
    assert (runs[1]["attempt"], runs[1]["redelivered"]) == (2, True)


@pytest.mark.more
async def test_with_default_settings_the_job_of_a_killed_worker_runs_again_within_20_seconds(
    workshop: Workshop,
) -> None:
    workers = [await workshop.start_ready(lease=None) for _ in range(2)]
    jobs = [await workshop.task("first_hangs").enqueue() for _ in range(8)]
    await workshop.until(lambda: len(workshop.log.lines("started")) == 8)
    [victim] = [worker for worker in workers if worker.pid == workshop.log.lines("started")[0]["pid"]]
    held = [line["id"] for line in workshop.log.lines("started", pid=victim.pid)]
    killed_at = time.time()
    victim.kill()
    for id in held:
        await workshop.until(lambda id=id: len(workshop.log.lines("started", id=id)) == 2, timeout=30)
        again = workshop.log.lines("started", id=id)[1]
        assert again["at"] - killed_at <= 20 + 2  # what a busy machine takes to notice
    assert {job.id for job in jobs} >= set(held)


async def test_workers_killed_again_and_again_lose_nothing(workshop: Workshop) -> None:
    jobs = await workshop.app.enqueue_many([workshop.task("quick").call(n) for n in range(2_000)])
    for round_number in range(4):
        worker = await workshop.start_ready("--concurrency", "50")
        goal = 150 * (round_number + 1)
        await workshop.until(lambda goal=goal: len(workshop.log.lines("quick")) >= goal)
        worker.kill()  # very likely in the middle of a commit
    workshop.start("--burst")
    await asyncio.gather(*(job.wait(timeout=60) for job in jobs))

    infos = await asyncio.gather(*(job.info() for job in jobs))
    dead = {number for number, info in enumerate(infos) if info.status is JobStatus.DEAD}
    assert {info.status for info in infos} <= {JobStatus.SUCCEEDED, JobStatus.DEAD}
    # A job that three killed workers held is dead. The third and later workers held one suspect at a time.
    assert len(dead) <= 2
    assert {infos[number].crashes for number in dead} <= {3}
    assert {line["number"] for line in workshop.log.lines("quick")} >= set(range(2_000)) - dead
    workshop.check_integrity()


async def test_a_queue_uses_the_slots_that_the_command_gives_it(workshop: Workshop) -> None:
    nap = workshop.task("nap")
    mails = await workshop.app.enqueue_many([nap.with_(queue="mails").call(0.3) for _ in range(6)])
    reports = await workshop.app.enqueue_many([nap.with_(queue="reports").call(0.3) for _ in range(8)])
    await workshop.start_ready("--queues", "mails:2,reports", "--concurrency", "20")
    await asyncio.gather(*(job.wait(timeout=30) for job in (*mails, *reports)))
    assert _most_at_once(workshop, mails) == 2
    assert _most_at_once(workshop, reports) == 8
    assert "mails:2, reports" in workshop.workers[0].output


def _most_at_once(workshop: Workshop, jobs: list[Job[Any]]) -> int:
    ids, running, most = {job.id for job in jobs}, 0, 0
    for line in workshop.log.lines():
        if line.get("id") in ids:
            running += {"started": 1, "ended": -1}.get(line["what"], 0)
            most = max(most, running)
    return most


async def test_a_job_that_takes_its_workers_down_is_reported_when_it_dies(workshop: Workshop) -> None:
    job = await workshop.task("poison").with_(queue="watched").enqueue()
    for _ in range(2):  # the crash limit of this queue
        assert workshop.start("--queues", "watched,default").exit_code() == 9
    await workshop.start_ready("--queues", "watched,default")
    await workshop.until(lambda: workshop.log.lines("death"))
    [death] = workshop.log.lines("death")
    assert (death["id"], death["task"], death["queue"], death["reason"]) == (
        job.id,
        "poison",
        "watched",
        "crashed",
    )
    assert len(workshop.log.lines("started", id=job.id)) == 2
    assert await job.status() is JobStatus.DEAD


@pytest.mark.parametrize("leases", [1.5, 5.0])
async def test_a_worker_stopped_past_its_lease_is_told_that_it_lost_the_job(
    workshop: Workshop, leases: float
) -> None:
    first = await workshop.start_ready()
    job = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    await workshop.stop(first)
    resumed_at = time.monotonic() + leases * LEASE
    second = await workshop.start_ready()
    assert await job.result(timeout=20) == "done"

    await workshop.until(lambda: time.monotonic() >= resumed_at)
    first.send(signal.SIGCONT)
    await workshop.until(lambda: workshop.log.lines("lost", id=job.id, pid=first.pid))
    # A server may have handed it to the read that the stopped worker had under way. When that goes on it
    # finds the answer, and hands it back.
    await workshop.task("quick").enqueue(1)
    await workshop.until(lambda: workshop.log.lines("quick"))
    assert [line["pid"] for line in workshop.log.lines("started", id=job.id)] == [first.pid, second.pid]
    assert await job.status() is JobStatus.SUCCEEDED


async def test_a_worker_that_stood_still_begins_nothing_of_what_it_had_buffered(workshop: Workshop) -> None:
    quick = workshop.task("quick")
    first = await workshop.start_ready()
    number = await _stop_with_jobs_left(workshop, first)
    second = await workshop.start_ready()
    await workshop.until(lambda: len({line["number"] for line in workshop.log.lines("quick")}) == number)

    resumed_at = time.time()
    first.send(signal.SIGCONT)
    second.kill()
    await quick.enqueue(number)
    await workshop.until(lambda: workshop.log.lines("quick", number=number, pid=first.pid))
    begun = [line for line in workshop.log.lines("quick", pid=first.pid) if line["at"] > resumed_at]
    # One may have been between the buffer and its handler.
    assert sum(line["number"] < number for line in begun) <= 1


async def _stop_with_jobs_left(workshop: Workshop, worker: WorkerProcess) -> int:
    """How many jobs there are. A worker that ends all before it stands still gets more."""
    quick, number = workshop.task("quick"), 0
    while len(workshop.log.lines("quick")) == number:
        worker.send(signal.SIGCONT)
        await workshop.app.enqueue_many([quick.call(each) for each in range(number, number + 5_000)])
        more, number = number + 200, number + 5_000
        await workshop.until(lambda more=more: len(workshop.log.lines("quick")) >= more)
        await workshop.stop(worker)
    return number


async def test_a_worker_stopped_for_half_a_lease_loses_nothing(workshop: Workshop) -> None:
    first = await workshop.start_ready(lease=8.0)
    await workshop.start_ready(lease=8.0)
    job = await workshop.task("nap").enqueue(5.0)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    holder = workshop.log.lines("started", id=job.id)[0]["pid"]
    stopped = first if holder == first.pid else workshop.workers[1]
    await workshop.stop(stopped)
    resumed_at = time.monotonic() + 4.0
    await workshop.until(lambda: time.monotonic() >= resumed_at)
    stopped.send(signal.SIGCONT)

    assert await job.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started", id=job.id)) == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("seconds", "lease"),
    [
        pytest.param(4.0, 0.5, id="while the longer one still holds"),
        pytest.param(8.0, 1.0, id="when the shorter one holds alone"),
    ],
)
async def test_a_worker_with_a_shorter_lease_robs_nobody(
    workshop: Workshop, seconds: float, lease: float
) -> None:
    await workshop.start_ready(lease=6.0)
    job = await workshop.task("nap").enqueue(seconds)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    await workshop.start_ready(lease=lease)

    assert await job.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started", id=job.id)) == 1
    assert workshop.log.lines("lost") == []
    (info,) = [info for info in await workshop.app.admin.jobs("default") if info.id == job.id]
    assert info.crashes == 0


async def test_the_job_of_a_worker_killed_amid_its_progress_runs_again_without_it(workshop: Workshop) -> None:
    first = await workshop.start_ready()
    job = await workshop.task("tell_then_hang").enqueue()

    async def tells() -> bool:
        return (await job.info()).progress is not None

    await workshop.until(tells)
    first.kill()
    await workshop.start_ready()
    assert await job.result(timeout=20) is False


async def test_sigterm_hands_a_running_job_over_in_two_seconds_and_spends_no_attempt(
    workshop: Workshop,
) -> None:
    first = await workshop.start_ready("--grace", "0.2", lease=10.0)
    job = await workshop.task("first_hangs").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    second = await workshop.start_ready(lease=10.0)
    told_at = time.time()
    first.send(signal.SIGTERM)

    assert await job.result(timeout=20) == "done"
    again = workshop.log.lines("started", id=job.id)[1]
    assert (again["pid"], again["attempt"]) == (second.pid, 1)
    assert again["at"] - told_at < 8  # before the lease runs out
    assert first.exit_code() == 0


async def test_sigterm_lets_a_running_job_end_within_the_grace(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--grace", "10", lease=10.0)
    job = await workshop.task("nap").enqueue(1.0)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    worker.send(signal.SIGTERM)

    assert worker.exit_code() == 0
    assert await job.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started", id=job.id)) == 1


async def test_a_second_sigterm_ends_the_grace(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--grace", "60", lease=10.0)
    job = await workshop.task("nap").enqueue(3600)
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    worker.send(signal.SIGTERM)
    await workshop.until(lambda: "stopping: 1 running" in worker.output)
    worker.send(signal.SIGTERM)

    assert worker.exit_code(10) == 0
    info = await job.info()
    assert (info.status, info.attempts, info.releases) == (JobStatus.QUEUED, 0, 1)


async def test_an_idle_worker_ends_at_once_on_sigterm(workshop: Workshop) -> None:
    worker = await workshop.start_ready()
    worker.send(signal.SIGTERM)
    assert worker.exit_code() == 0


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_worker(workshop: Workshop) -> None:
    worker = await workshop.start_ready("--grace", "0")
    job = await workshop.task("stubborn").enqueue()
    await workshop.until(lambda: workshop.log.lines("started", id=job.id))
    worker.send(signal.SIGTERM)

    assert worker.exit_code(10) == 0
    assert workshop.log.lines("ignored", id=job.id)
    assert await job.status() is JobStatus.QUEUED


async def test_an_event_loop_blocked_for_two_leases_runs_its_job_once(workshop: Workshop) -> None:
    lease = 3 * LEASE  # longer than a busy machine stops a process
    for _ in range(2):
        await workshop.start_ready(lease=lease)
    job = await workshop.task("block").enqueue(2.2 * lease)

    assert await job.result(timeout=20) == "unblocked"
    assert len(workshop.log.lines("started", id=job.id)) == 1
    assert not workshop.log.lines("lost")


async def test_a_job_of_five_leases_runs_once(workshop: Workshop) -> None:
    lease = 2 * LEASE
    for _ in range(2):
        await workshop.start_ready(lease=lease)
    job = await workshop.task("nap").enqueue(5 * lease)

    assert await job.result(timeout=20) == "rested"
    assert len(workshop.log.lines("started", id=job.id)) == 1


@pytest.mark.more
async def test_a_job_that_kills_its_worker_is_dead_at_the_third_time_and_takes_no_innocents(
    workshop: Workshop,
) -> None:
    supervisor = workshop.start("--processes", "2")
    naps = await workshop.app.enqueue_many([workshop.task("nap").call(0.5) for _ in range(20)])
    poison = await workshop.task("poison").enqueue()
    assert await poison.wait(timeout=50) is JobStatus.DEAD
    for nap in naps:
        assert await nap.result(timeout=30) == "rested"

    [letter] = await workshop.app.admin.dead(queue="default")
    assert (letter.id, letter.reason, letter.attempts) == (poison.id, "crashed", 3)
    assert len(workshop.log.lines("started", id=poison.id)) == 3
    supervisor.send(signal.SIGTERM)
    assert supervisor.exit_code() == 0


async def test_four_processes_drain_20_000_jobs_and_run_each_exactly_once(workshop: Workshop) -> None:
    await workshop.app.enqueue_many([workshop.task("quick").call(n) for n in range(20_000)])
    # The default lease: no worker is killed here, and a worker that a busy machine delays must keep its jobs.
    supervisor = workshop.start("--processes", "4", "--burst", lease=None)

    assert supervisor.exit_code(timeout=90) == 0, supervisor.output
    numbers = sorted(line["number"] for line in workshop.log.lines("quick"))
    assert numbers == list(range(20_000))
    assert len({line["pid"] for line in workshop.log.lines("quick")}) > 1
    [queue] = await workshop.app.admin.queues()
    assert (queue.queued, queue.running, queue.retrying, queue.dead) == (0, 0, 0, 0)


async def test_several_processes_produce_and_work_at_once(workshop: Workshop) -> None:
    await workshop.start_ready(lease=None)
    await workshop.start_ready(lease=None)

    async def produce(start: int) -> None:
        for number in range(start, start + 50):
            await workshop.task("quick").enqueue(number)

    await asyncio.gather(*(produce(start) for start in range(0, 1000, 50)))
    await workshop.until(lambda: len(workshop.log.lines("quick")) >= 1000)
    assert sorted(line["number"] for line in workshop.log.lines("quick")) == list(range(1000))


async def test_children_end_when_their_supervisor_is_killed(workshop: Workshop) -> None:
    supervisor = workshop.start("--processes", "2")
    await workshop.until(lambda: len(workshop.log.lines("working")) == 2)
    supervisor.kill()
    await workshop.until(lambda: supervisor.output.count("the supervisor is gone") == 2)
    await workshop.until(lambda: supervisor.output.count("stopped after") == 2)


async def _until_started(workshop: Workshop, job: Job[str], times: int) -> None:
    await workshop.until(lambda: len(workshop.log.lines("started", id=job.id)) == times)


@pytest.mark.parametrize("task", ["grind", "count"])
async def test_a_worker_killed_with_a_child_process_or_amid_progress_loses_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.setenv(STORE, workshop.url)
    program = importlib.reload(importlib.import_module(RESTARTED))
    first = workshop.start(target=f"{RESTARTED}:app")
    async with program.app:
        job: Job[str] = await program.app.tasks[task].enqueue()
        await _until_started(workshop, job, 1)

        async def reported() -> bool:
            info = await job.info()
            return bool(info.log) and (task == "grind" or info.progress is not None)

        await workshop.until(reported)
        first.kill()
        workshop.start(target=f"{RESTARTED}:app")

        assert await job.result(timeout=20) in ("ground", "counted")
        assert [line["attempt"] for line in workshop.log.lines("started", id=job.id)] == [1, 2]
        said = {"grind": "grinding", "count": "counting"}[task]
        logged = [(line.attempt, line.level, line.text) for line in (await job.info()).log]
        assert logged == [(1, "warning", said), (2, "warning", said)]
        if task == "grind":
            child = workshop.log.lines("started", id=job.id)[0]["pid"]
            await workshop.until(lambda: not os.path.exists(f"/proc/{child}"))
