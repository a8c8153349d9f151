"""Timeouts: a coroutine is cancelled, a thread is waited for and told."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from headrace import App, JobFailed, JobStatus, RetryPolicy, Run, current_job, signals
from headrace.engine.declared.registry import CallNext
from tests.support.waiting import wait_until, wait_until_sync
from tests.unit.behaviour.work import drain, of

#: Seconds: as short as can be told from none.
SHORT = 0.02


async def test_a_coroutine_is_cancelled_and_the_run_has_failed(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.none())
    async def hang() -> int:
        await asyncio.Event().wait()
        return 1

    job = await hang.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match=r"hang did not end within its timeout of 0\.02 s") as failed:
        await job.result()
    assert failed.value.error_type == "TimeoutError"
    (entry,) = (await job.info()).trail
    assert entry.what == "timed out"
    (signal,) = of(signals.JobFailed, heard)
    assert signal.error_type == "TimeoutError"


async def test_a_timed_out_job_is_retried_by_its_policy(app: App) -> None:
    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.fixed(1, 0))
    async def hang_once() -> int:
        if current_job().attempt == 1:
            await asyncio.Event().wait()
        return current_job().attempt

    job = await hang_once.enqueue()
    await drain(app)
    assert await job.result() == 2


async def test_a_coroutine_may_clean_up_and_its_own_error_counts(app: App) -> None:
    cleaned: list[bool] = []

    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.none())
    async def hang() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.append(current_job().cancelled)
            raise ValueError("ran out of time") from None
        return 1

    job = await hang.enqueue()
    await drain(app)
    assert cleaned == [True]
    with pytest.raises(JobFailed, match="ran out of time"):
        await job.result()


async def test_a_coroutine_that_swallows_the_cancellation_and_returns_has_succeeded(app: App) -> None:
    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.none())
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "made it"

    job = await hang.enqueue()
    await drain(app, concurrency=1)
    assert await job.result() == "made it"


async def test_a_job_within_its_timeout_is_left_alone(app: App) -> None:
    @app.task(name="quick", timeout=30)
    async def quick() -> int:
        await asyncio.sleep(0)
        return 1

    jobs = await app.enqueue_many([quick.call() for _ in range(50)])
    await drain(app)
    assert [await job.result() for job in jobs] == [1] * 50


async def test_a_call_may_have_a_timeout_of_its_own(app: App) -> None:
    @app.task(name="hang", retry=RetryPolicy.none())
    async def hang() -> int:
        await asyncio.Event().wait()
        return 1

    job = await hang.with_(timeout=timedelta(seconds=SHORT)).enqueue()
    await drain(app)
    assert await job.status() is JobStatus.DEAD


async def test_a_call_may_switch_its_tasks_timeout_off(app: App) -> None:
    seen: list[datetime | None] = []

    @app.task(name="see", timeout=30)
    async def see() -> None:
        seen.append(current_job().deadline)

    await see.with_(timeout=None).enqueue()
    await drain(app)
    assert seen == [None]


async def test_the_middleware_is_within_the_timeout(app: App) -> None:
    async def slow(run: Run, call_next: CallNext) -> object:
        value = await call_next(run)
        await asyncio.Event().wait()
        return value

    app.use(slow)

    @app.task(name="quick", timeout=SHORT, retry=RetryPolicy.none())
    async def quick() -> int:
        return 1

    @app.task(name="plain", timeout=SHORT, retry=RetryPolicy.none())
    def plain() -> int:
        return 1

    jobs = [await quick.enqueue(), await plain.enqueue()]
    await drain(app)
    assert [await job.status() for job in jobs] == [JobStatus.DEAD] * 2


# --- threads -------------------------------------------------------------------------------------------


async def test_a_thread_keeps_its_slot_until_it_ends_and_then_has_failed(
    app: App, heard: list[signals.Signal]
) -> None:
    gate, order = threading.Event(), list[str]()

    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.none())
    def hang() -> int:
        gate.wait(10)
        order.append("hang")
        return 1

    @app.task(name="next")
    async def following() -> None:
        order.append("next")

    job = await hang.enqueue()
    async with app.worker(concurrency=1):
        await wait_until(lambda: of(signals.ThreadOverdue, heard))
        after = await following.enqueue()
        assert await job.status() is JobStatus.RUNNING
        gate.set()
        await after.wait(timeout=10)
    assert order == ["hang", "next"]
    assert of(signals.ThreadOverdue, heard) == [
        signals.ThreadOverdue(job.id, "hang", "default", timeout=SHORT)
    ]
    with pytest.raises(JobFailed, match="did not end within its timeout"):
        await job.result()


async def test_a_thread_is_not_retried_beside_itself(app: App, heard: list[signals.Signal]) -> None:
    gate, order = threading.Event(), list[str]()

    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.fixed(1, 0))
    def hang() -> None:
        order.append("in")
        gate.wait(10)
        order.append("out")

    job = await hang.enqueue()
    async with app.worker():
        await wait_until(lambda: of(signals.ThreadOverdue, heard))
        assert await job.status() is JobStatus.RUNNING
        gate.set()
        await job.wait(timeout=10)
    assert order == ["in", "out", "in", "out"]


async def test_a_thread_can_see_that_its_time_is_up(app: App) -> None:
    @app.task(name="hang", timeout=SHORT, retry=RetryPolicy.none())
    def hang() -> int:
        run = current_job()
        wait_until_sync(lambda: run.cancelled)
        raise ValueError("stopped by myself")

    job = await hang.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="stopped by myself"):
        await job.result()


async def test_the_deadline_is_the_same_whoever_asks_and_whenever(app: App) -> None:
    deadlines: list[datetime | None] = []

    @app.task(name="one", timeout=60)
    async def one() -> None:
        deadlines.append(current_job().deadline)
        await asyncio.sleep(0)
        deadlines.append(await asyncio.to_thread(lambda: current_job().deadline))

    @app.task(name="other", timeout=60)
    def other() -> None:
        deadlines.append(current_job().deadline)
        deadlines.append(current_job().deadline)

    for task in (one, other):
        deadlines.clear()
        began = datetime.now(UTC)
        await task.enqueue()
        await drain(app)
        first, second = deadlines
        assert first == second
        assert first is not None
        assert timedelta(seconds=60) <= first - began < timedelta(seconds=70)


async def hang_afterwards(run: Run, call_next: CallNext) -> object:
    """Middleware that never comes to its end after the function, also where the function raised."""
    try:
        return await call_next(run)
    finally:
        await asyncio.Event().wait()


@pytest.mark.parametrize("error", [None, ValueError("too late")])
async def test_the_timeout_of_an_overdue_thread_reaches_its_middleware(
    app: App, error: Exception | None
) -> None:
    app.use(hang_afterwards)

    @app.task(name="overdue", timeout=SHORT, retry=RetryPolicy.none())
    def overdue() -> int:
        wait_until_sync(lambda: current_job().cancelled)
        if error is not None:
            raise error
        return 1

    jobs = [await overdue.enqueue(), await overdue.enqueue()]
    async with app.worker(concurrency=1, grace=0):
        for job in jobs:
            await job.wait(timeout=10)
    assert [[each.what for each in (await job.info()).trail] for job in jobs] == [["timed out"]] * 2
