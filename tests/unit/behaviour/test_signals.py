"""Signals tell listeners what happened to jobs and workers. A listener that fails never harms a job."""

from __future__ import annotations

import asyncio

import pytest

from headrace import App, RetryPolicy, current_job, signals
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain, of


async def test_a_success_is_announced_from_beginning_to_end(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="see", queue="sights")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    worker = app.worker()
    await worker.run(burst=True)
    assert [type(signal) for signal in heard] == [
        signals.JobEnqueued,
        signals.WorkerStarted,
        signals.JobStarted,
        signals.JobSucceeded,
        signals.WorkerStopping,
        signals.WorkerStopped,
    ]
    (started,) = of(signals.JobStarted, heard)
    assert (started.id, started.task, started.queue) == (job.id, "see", "sights")
    assert (started.attempt, started.worker) == (1, worker.id)
    assert 0 <= started.waited < 10
    (succeeded,) = of(signals.JobSucceeded, heard)
    assert (succeeded.id, succeeded.attempt, succeeded.worker) == (job.id, 1, worker.id)
    assert 0 <= succeeded.seconds < 10


async def test_a_failure_says_what_follows(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="fail", retry=RetryPolicy.fixed(1, 0))
    async def fail() -> int:
        raise ValueError("no")

    await fail.enqueue()
    await drain(app)
    told = [signal for signal in heard if isinstance(signal, signals.JobSignal)][1:]
    assert [type(signal) for signal in told] == [
        signals.JobStarted,
        signals.JobFailed,
        signals.JobRetrying,
        signals.JobStarted,
        signals.JobFailed,
        signals.JobDied,
    ]
    failed = of(signals.JobFailed, heard)[0]
    assert (failed.attempt, failed.error_type, failed.error) == (1, "ValueError", "no")
    assert failed.traceback.rstrip().endswith("ValueError: no")
    died = of(signals.JobDied, heard)[0]
    assert (died.attempt, died.reason, died.error_type, died.error) == (2, "exhausted", "ValueError", "no")


async def test_a_worker_says_what_it_serves_and_what_it_did(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    await app.enqueue_many([see.call() for _ in range(3)])
    worker = app.worker(queues=["default"], concurrency=7, lease=20, grace=3)
    await worker.run(burst=True)
    (started,) = of(signals.WorkerStarted, heard)
    assert started == signals.WorkerStarted(worker.id, ("default",), 7, 20.0, app.description)
    assert of(signals.WorkerStopping, heard) == [signals.WorkerStopping(worker.id, 0, 3.0)]
    assert of(signals.WorkerStopped, heard) == [signals.WorkerStopped(worker.id, 3, 0)]


async def test_a_worker_that_changes_a_queues_lease_says_so(app: App, heard: list[signals.Signal]) -> None:
    async with app.worker(lease=15):
        pass
    assert of(signals.LeaseChanged, heard) == []
    async with app.worker(lease=30):
        pass
    assert of(signals.LeaseChanged, heard) == [signals.LeaseChanged("default", 15.0, 30.0)]


async def test_a_listener_to_a_base_class_hears_every_job(app: App) -> None:
    seen: list[str] = []

    @app.on(signals.JobSignal)
    def note(signal: signals.JobSignal) -> None:
        seen.append(type(signal).__name__)

    @app.task(name="see")
    async def see() -> int:
        return 1

    await see.enqueue()
    await drain(app)
    assert seen == ["JobEnqueued", "JobStarted", "JobSucceeded"]


async def test_a_failing_listener_hurts_no_job(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.on(signals.Signal)
    def broken(signal: signals.Signal) -> None:
        raise RuntimeError("a bug in the listener")

    @app.on(signals.JobStarted)
    async def broken_too(signal: signals.JobStarted) -> None:
        raise RuntimeError("another")

    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 1
    assert "a listener failed and was passed over" in caplog.text


async def test_an_async_listener_may_use_the_app_and_is_waited_for_at_the_end(app: App) -> None:
    @app.task(name="fail", retry=RetryPolicy.none())
    async def fail() -> int:
        raise ValueError("no")

    @app.task(name="report")
    async def report(id: str) -> str:
        return f"{id} died"

    @app.on(signals.JobDied)
    async def follow_up(signal: signals.JobDied) -> None:
        await report.with_(job_id=f"report-{signal.id}").enqueue(signal.id)

    job = await fail.enqueue()
    async with app.worker():
        await wait_until_known(app, f"report-{job.id}")
        assert await app.job(f"report-{job.id}").result(timeout=10) == f"{job.id} died"


async def wait_until_known(app: App, id: str) -> None:
    async def is_known() -> bool:
        return await app.admin.job(id) is not None

    await wait_until(is_known)


async def test_a_listener_to_a_start_sees_the_job_that_starts(app: App) -> None:
    seen: list[tuple[str, str]] = []

    @app.on(signals.JobStarted)
    def note(signal: signals.JobStarted) -> None:
        seen.append((signal.id, current_job().id))

    @app.task(name="see")
    async def see() -> int:
        return 1

    await app.enqueue_many([see.call() for _ in range(3)])
    await drain(app, concurrency=1)
    assert [one for one, _ in seen] == [other for _, other in seen]


def test_an_enqueue_from_another_loop_is_announced_on_the_apps_own() -> None:
    app = App("memory://")
    loops: list[asyncio.AbstractEventLoop] = []

    @app.on(signals.JobEnqueued)
    async def note(signal: signals.JobEnqueued) -> None:
        loops.append(asyncio.get_running_loop())

    @app.task(name="see")
    async def see() -> int:
        return 1

    async def elsewhere() -> None:
        await see.enqueue()
        await app.enqueue_many([see.call()])

    async def home() -> None:
        async with app:
            await asyncio.to_thread(asyncio.run, elsewhere())
        assert loops == [asyncio.get_running_loop()] * 2

    asyncio.run(home())


async def test_without_listeners_signals_are_not_even_made(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    @app.task(name="see")
    async def see() -> int:
        return 1

    def note(signal: signals.Signal) -> None:
        made.append(type(signal).__name__)

    monkeypatch.setattr(app._emitter, "emit", note)
    await see.enqueue()
    await drain(app)
    assert not {"JobEnqueued", "JobStarted", "JobSucceeded"} & set(made)


async def test_an_async_listener_may_close_the_app(app: App) -> None:
    @app.on(signals.WorkerStopped)
    async def close(_: signals.WorkerStopped) -> None:
        await app.close()

    async with asyncio.timeout(10), app:
        await drain(app)
