"""A worker's life: starting, stopping in order, being told twice, losing a lease, running bursts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import (
    App,
    BackendUnavailable,
    ConfigurationError,
    Job,
    JobStatus,
    RetryPolicy,
    Run,
    Snooze,
    Worker,
    current_job,
    signals,
)
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Outcome, Settlement, Verdict
from headrace.core.records.record import Counts
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.engine.running import slots as slots_module
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.worker import worker as worker_module
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of, until

QUEUE = Stream("queue", "default")

# --- starting ------------------------------------------------------------------------------------------


async def test_a_worker_can_be_started_once(app: App) -> None:
    worker = app.worker()
    async with worker:
        with pytest.raises(ConfigurationError, match="a worker can be started once"):
            await worker.run()
    with pytest.raises(ConfigurationError, match=r"ask app\.worker"):
        async with worker:
            pass


async def test_on_windows_a_worker_refuses_tasks_that_run_in_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "sys", SimpleNamespace(platform="win32"))
    from tests.integration.programs import cpu_tasks

    with pytest.raises(ConfigurationError, match="do not run on Windows"):
        await cpu_tasks.app.worker().run(burst=True)
    await cpu_tasks.app.close()


async def test_a_worker_says_how_it_is_doing(app: App) -> None:
    gate = asyncio.Event()

    @app.task(name="see")
    async def see() -> None:
        await gate.wait()

    worker = app.worker()
    assert (worker.processed, worker.running, worker.last_poll) == (0, 0, 0.0)
    async with worker:
        await see.enqueue()
        await wait_until(lambda: worker.running == 1)
        assert worker.last_poll > 0
        gate.set()
        await wait_until(lambda: worker.processed == 1)
    assert worker.running == 0


async def test_several_workers_share_an_app(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> None:
        await asyncio.sleep(0)
        seen.append(n)

    await app.enqueue_many([see.call(n) for n in range(100)])
    await asyncio.gather(*(app.worker(concurrency=2).run(burst=True) for _ in range(3)))
    assert sorted(seen) == list(range(100))


async def test_a_worker_serves_only_its_queues(app: App) -> None:
    ran: list[str] = []

    @app.task(name="see")
    async def see(what: str) -> None:
        ran.append(what)

    await see.enqueue("default")
    await see.with_(queue="other").enqueue("other")
    await app.worker(queues=["other"]).run(burst=True)
    assert ran == ["other"]


# --- stopping ------------------------------------------------------------------------------------------


async def test_running_jobs_have_the_grace_to_end(app: App, heard: list[signals.Signal]) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    @app.on(signals.WorkerStopping)
    def open_the_gate(signal: signals.WorkerStopping) -> None:
        assert signal.running == 1
        asyncio.get_running_loop().call_later(0.02, gate.set)

    job = await see.enqueue()
    async with app.worker(grace=30):
        await inside.wait()
    assert await job.result() == 1
    (stopped,) = of(signals.WorkerStopped, heard)
    assert (stopped.processed, stopped.released) == (1, 0)


async def test_after_the_grace_a_coroutine_is_cancelled_and_handed_back_at_no_cost(
    app: App, heard: list[signals.Signal]
) -> None:
    inside, cleaned = asyncio.Event(), list[bool]()

    @app.task(name="see", retry=RetryPolicy.none())
    async def see() -> int:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(current_job().cancelled)
        return 1

    job = await see.enqueue()
    async with app.worker(grace=0.01):
        await inside.wait()
    assert cleaned == [True]
    info = await job.info()
    assert (info.status, info.attempts, info.failures, info.releases) == (JobStatus.QUEUED, 0, 0, 1)
    assert of(signals.JobFailed, heard) == []
    (stopped,) = of(signals.WorkerStopped, heard)
    assert (stopped.processed, stopped.released) == (0, 1)


async def test_what_was_handed_back_is_run_before_everything_else(app: App) -> None:
    inside, order = asyncio.Event(), list[str]()

    @app.task(name="see")
    async def see(what: str) -> None:
        order.append(what)
        inside.set()
        if len(order) == 1:
            await asyncio.Event().wait()

    await see.with_(priority="low").enqueue("handed back")
    async with app.worker(grace=0):
        await inside.wait()
    await see.with_(priority="high").enqueue("high")
    await drain(app, concurrency=1)
    assert order == ["handed back", "handed back", "high"]


async def test_buffered_jobs_are_handed_back_at_once(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "LONGEST_BUFFERED", 3600.0)  # nothing but the stop hands them back
    inside, gate = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see(n: int) -> int:
        inside.set()
        await gate.wait()
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(3)])
    store.ahead = 2
    async with app.worker(concurrency=1, grace=30) as worker:
        await inside.wait()
        stopping = asyncio.create_task(worker.stop())
        await until(jobs[1], JobStatus.QUEUED)
        await until(jobs[2], JobStatus.QUEUED)
        assert await jobs[0].status() is JobStatus.RUNNING
        gate.set()
        await stopping
    assert await jobs[0].result() == 0
    assert [(await job.info()).releases for job in jobs[1:]] == [1, 1]


async def test_a_thread_that_does_not_end_is_left_behind_and_its_job_handed_back(app: App) -> None:
    inside, gate = threading.Event(), threading.Event()
    ended: list[int] = []

    @app.task(name="hang")
    def hang() -> int:
        inside.set()
        gate.wait(10)
        ended.append(1)
        return 1

    job = await hang.enqueue()
    async with app.worker(grace=0):
        await wait_until(inside.is_set)
    info = await job.info()
    assert (info.status, info.attempts) == (JobStatus.QUEUED, 0)
    gate.set()
    await wait_until(lambda: ended)
    assert await job.status() is JobStatus.QUEUED
    await drain(app)
    assert await job.result() == 1


async def test_a_coroutine_that_will_not_end_is_left_behind_and_its_job_handed_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (slots_module, worker_module):
        monkeypatch.setattr(module, "CANCEL_WAIT", 0.01)
    inside, gate = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    @app.task(name="hang")
    async def hang() -> int:
        inside.set()
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        ended.append(1)
        return len(ended)

    job = await hang.enqueue()
    async with app.worker(grace=0):
        await inside.wait()
    info = await job.info()
    assert (info.status, info.attempts) == (JobStatus.QUEUED, 0)
    gate.set()
    await wait_until(lambda: ended)
    assert await job.status() is JobStatus.QUEUED
    await drain(app)
    assert await job.result() == 2


async def test_stopping_twice_is_stopping_once(app: App, heard: list[signals.Signal]) -> None:
    async with app.worker() as worker:
        await worker.stop()
        await worker.stop()
    assert len(of(signals.WorkerStopped, heard)) == 1


async def test_outcomes_are_written_before_the_worker_has_stopped(app: App, store: InterceptedStore) -> None:
    settle = store.settle
    away = 2

    async def away_for_a_moment(settlements: Sequence[Settlement]) -> list[Verdict]:
        nonlocal away
        if away:
            away -= 1
            raise BackendUnavailable("away", transient=True)
        return await settle(settlements)

    ran = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        ran.set()
        return 1

    store.intercept("settle", away_for_a_moment)
    job = await see.enqueue()
    async with app.worker():
        await ran.wait()
    assert await job.result() == 1


async def test_a_store_that_stays_away_does_not_keep_a_worker_from_stopping(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "LAST_WRITES", 0.05)

    async def away(*args: object, **kwargs: object) -> list[Verdict]:
        raise BackendUnavailable("away", transient=True)

    ran = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        for verb in ("settle", "claim", "heartbeat", "promote", "reclaim"):
            store.intercept(verb, away)
        ran.set()
        return 1

    job = await see.enqueue()
    async with app.worker():
        await ran.wait()
    assert await job.status() is JobStatus.RUNNING


# --- cancelled or failing bodies -----------------------------------------------------------------------


async def test_an_error_inside_stops_the_worker_and_goes_on(app: App, heard: list[signals.Signal]) -> None:
    with pytest.raises(ValueError, match="inside"):
        async with app.worker():
            raise ValueError("inside")
    assert of(signals.WorkerStopped, heard)


async def test_a_cancelled_run_hands_back_and_is_cancelled(app: App) -> None:
    inside = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    running = asyncio.create_task(app.worker(grace=0).run())
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    info = await job.info()
    assert (info.status, info.attempts) == (JobStatus.QUEUED, 0)


async def test_a_cancellation_while_leaving_takes_the_grace_away_and_goes_on(app: App) -> None:
    inside, leaving = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await asyncio.Event().wait()
        return 1

    @app.on(signals.WorkerStopping)
    def note(signal: signals.WorkerStopping) -> None:
        leaving.set()

    async def work() -> str:
        async with app.worker(grace=3600):
            await inside.wait()
        return "went on as if nothing had happened"

    job = await see.enqueue()
    working = asyncio.create_task(work())
    await leaving.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await job.status() is JobStatus.QUEUED


# --- signals of the system -----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_run_ends_at_a_signal(app: App, heard: list[signals.Signal], number: int) -> None:
    running = asyncio.create_task(app.worker().run())
    await wait_until(lambda: of(signals.WorkerStarted, heard))
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 10)


async def test_a_second_signal_cuts_the_grace_short(app: App, heard: list[signals.Signal]) -> None:
    inside = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    running = asyncio.create_task(app.worker(grace=3600).run())
    await inside.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until(lambda: of(signals.WorkerStopping, heard))
    assert await job.status() is JobStatus.RUNNING
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 10)
    assert await job.status() is JobStatus.QUEUED


def test_a_worker_runs_in_a_thread_that_is_not_the_main_one() -> None:
    app = App("memory://")
    results: list[int] = []

    @app.task(name="see")
    async def see() -> int:
        return 1

    async def work() -> None:
        async with app:
            job = await see.enqueue()
            await app.worker().run(burst=True)
            results.append(await job.result())

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    thread.join()
    assert results == [1]


# --- leases --------------------------------------------------------------------------------------------


async def lose_leases(store: InterceptedStore, *jobs: Job[Any]) -> None:
    """Have another worker find that the leases of these jobs ran out."""
    store.clock.advance(LONG + 1)
    reclaimed = await store.reclaim([QUEUE], limit=10)
    assert {recovery.id for recovery in reclaimed.recovered} == {job.id for job in jobs}


def _has_renewed(worker: Worker, times: int) -> bool:
    return worker.renewals >= times  # a heartbeat reads the lease of the store, and so changes it too


async def nothing(*args: object, **options: object) -> list[Claim]:
    """A claim that finds nothing."""
    await asyncio.sleep(0.01)
    return []


async def test_a_lost_lease_is_announced_once_and_the_handler_cancelled(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    inside, cancelled, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @app.task(name="see")
    async def see() -> int:
        runs.append(current_job().attempt)
        if len(runs) == 1:
            inside.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
                await gate.wait()
        return 1

    job = await see.enqueue()
    async with app.worker(lease=LONG, grace=1) as worker:
        await inside.wait()
        await lose_leases(store, job)
        store.change_lease(QUEUE, LONG / 2)
        await asyncio.wait_for(cancelled.wait(), 10)
        for again in (2, 3, 4):  # each renewal says it again
            store.change_lease(QUEUE, LONG / 2**again)
            await wait_until(partial(_has_renewed, worker, again))
        gate.set()
        assert await job.result(timeout=10) == 1
    assert runs == [1, 2]
    assert of(signals.LeaseLost, heard) == [signals.LeaseLost(job.id, "see", "default", worker=worker.id)]


async def test_the_first_success_counts_even_when_the_lease_was_lost(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    inside = asyncio.Event()

    @app.task(name="see")
    async def see() -> str:
        inside.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done all the same"

    job = await see.enqueue()
    async with app.worker(lease=LONG):
        await inside.wait()
        await app.admin.pause("default")
        await lose_leases(store, job)
        store.change_lease(QUEUE, LONG / 2)
        assert await job.result(timeout=10) == "done all the same"
    assert len(of(signals.LeaseLost, heard)) == 1


async def test_all_jobs_of_a_worker_that_died_run_again_at_once(app: App, store: InterceptedStore) -> None:
    together = asyncio.Barrier(12)

    @app.task(name="see")
    async def see() -> int:
        await together.wait()
        return current_job().attempt

    jobs = await app.enqueue_many([see.call() for _ in range(12)])
    await crash(store, 12)
    async with app.worker(lease=LONG):
        assert [await job.result(timeout=10) for job in jobs] == [2] * 12


async def test_jobs_that_crashed_twice_are_run_one_at_a_time(app: App, store: InterceptedStore) -> None:
    inside = most = 0

    @app.task(name="see")
    async def see() -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5):
            await asyncio.sleep(0)
        inside -= 1
        return current_job().attempt

    jobs = await app.enqueue_many([see.call() for _ in range(5)])
    await crash(store, 5)
    await crash(store, 5)
    await drain(app)
    assert most == 1
    assert [await job.result() for job in jobs] == [3] * 5


async def crash(store: InterceptedStore, count: int) -> None:
    """Have a worker take so many jobs and die."""
    sources = [QUEUE]
    await store.declare_stream(sources[0], microseconds(LONG))
    await store.claim(sources, consumer="a worker that dies", limit=count, suspects=0, wait=0)
    store.clock.advance(LONG + 1)
    await store.reclaim(sources, limit=count)


async def test_jobs_that_were_claimed_ahead_and_not_started_are_given_to_others(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "LONGEST_BUFFERED", 0.02)
    inside, gate = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see(n: int) -> int:
        inside.set()
        if n == 0:
            await gate.wait()
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(3)])
    store.ahead = 2
    async with app.worker(concurrency=1):
        await inside.wait()
        async with app.worker():
            assert [await job.result(timeout=10) for job in jobs[1:]] == [1, 2]
        gate.set()


# --- bursts --------------------------------------------------------------------------------------------


async def test_a_burst_ends_at_once_when_there_is_nothing_to_do(app: App) -> None:
    await asyncio.wait_for(app.worker().run(burst=True), 10)


async def test_a_burst_runs_what_jobs_enqueue_and_what_is_retried(app: App) -> None:
    ran: list[int] = []

    @app.task(name="count", retry=RetryPolicy.fixed(1, 0.01))
    async def count(n: int) -> None:
        ran.append(n)
        if n == 2 and current_job().attempt == 1:
            raise ValueError("once")
        if n:
            await count.enqueue(n - 1)

    await count.enqueue(3)
    await drain(app)
    assert ran == [3, 2, 2, 1, 0]


async def test_a_burst_waits_for_what_is_running_and_retrying(app: App, store: InterceptedStore) -> None:
    @app.task(name="see", retry=RetryPolicy.fixed(1, 60))
    async def see() -> int:
        if current_job().attempt == 1:
            raise ValueError("once")
        return 1

    job = await see.enqueue()
    worker = app.worker(lease=LONG)
    burst = asyncio.create_task(worker.run(burst=True))
    await until(job, JobStatus.RETRYING)
    assert not burst.done()
    store.pass_time(60)
    await asyncio.wait_for(burst, 10)
    assert await job.result() == 1


async def test_a_burst_waits_for_what_another_worker_runs(app: App, store: InterceptedStore) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    job = await see.enqueue()
    async with app.worker():
        await inside.wait()
        burst = asyncio.create_task(app.worker().run(burst=True))
        looks = store.watch("counts")
        await wait_until(lambda: len(looks.made) >= 2)
        assert not burst.done()
        gate.set()
        await asyncio.wait_for(burst, 10)
    assert await job.result() == 1


async def test_a_burst_does_not_wait_for_what_is_scheduled_snoozed_or_dead(app: App) -> None:
    @app.task(name="see", retry=RetryPolicy.none())
    async def see(how: str) -> int:
        if how == "snooze":
            raise Snooze(3600)
        if how == "fail":
            raise ValueError("no")
        return 1

    scheduled = await see.with_(delay=3600).enqueue("later")
    snoozed, dead = await see.enqueue("snooze"), await see.enqueue("fail")
    await drain(app)
    assert [await job.status() for job in (scheduled, snoozed, dead)] == [
        JobStatus.SCHEDULED,
        JobStatus.SCHEDULED,
        JobStatus.DEAD,
    ]


async def test_a_burst_runs_what_is_due(app: App, clock: MovableClock) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.with_(delay=60).enqueue()
    clock.advance(61)
    await drain(app)
    assert await job.result() == 1


async def test_a_burst_outlives_a_store_that_is_away_for_a_moment(app: App, store: InterceptedStore) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    counts = store.counts
    errors = [BackendUnavailable("away", transient=True)] * 2

    async def sometimes(stream: Stream) -> Counts:
        if errors:
            raise errors.pop()
        return await counts(stream)

    store.intercept("counts", sometimes)
    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 1


async def test_a_burst_is_ended_by_a_signal_too(app: App) -> None:
    inside = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    burst = asyncio.create_task(app.worker(grace=0).run(burst=True))
    await inside.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(burst, 10)
    assert await job.status() is JobStatus.QUEUED


async def test_a_buffered_job_whose_lease_was_lost_is_left_to_others(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    inside, gate, ran = asyncio.Event(), asyncio.Event(), list[int]()

    @app.task(name="see")
    async def see(n: int) -> int:
        ran.append(n)
        inside.set()
        if n == 0:
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return n

    jobs = await app.enqueue_many([see.call(n) for n in range(2)])
    store.ahead = 1
    async with app.worker(concurrency=1, lease=LONG):
        await inside.wait()
        store.intercept("claim", nothing)
        await lose_leases(store, *jobs)
        store.change_lease(QUEUE, LONG / 2)
        await wait_until(lambda: of(signals.LeaseLost, heard))
        gate.set()
        store.restore("claim")
        assert await jobs[1].result(timeout=10) == 1
    assert ran.count(1) == 1


async def test_an_error_of_the_engine_itself_is_an_outcome_too(
    app: App, monkeypatch: pytest.MonkeyPatch, heard: list[signals.Signal]
) -> None:
    returned, runs = OutcomePolicy.returned, 0

    def broken_once(self: OutcomePolicy, run: Run, value: object) -> Outcome:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ZeroDivisionError("a bug in the engine")
        return returned(self, run, value)

    @app.task(name="see")
    async def see() -> int:
        return 1

    monkeypatch.setattr(OutcomePolicy, "returned", broken_once)
    job = await see.enqueue()
    async with app.worker(concurrency=1):
        assert await job.result(timeout=10) == 1
    assert runs == 2
    (failed,) = of(signals.JobFailed, heard)
    assert failed.error == "a bug in the engine"


async def test_closing_the_app_stops_its_worker_first(app: App) -> None:
    ended = asyncio.Event()

    @app.task(name="patient")
    async def patient() -> str:
        await ended.wait()
        return "ended"

    worker = app.worker()
    async with worker:
        job = await patient.enqueue()
        await wait_until(lambda: worker.running == 1)
        closing = asyncio.create_task(app.close())
        await asyncio.sleep(0)
        ended.set()
        await closing
    assert worker.running == 0
    assert await job.result(timeout=5) == "ended"
