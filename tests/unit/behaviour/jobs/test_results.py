"""Results, statuses and waiting: woken by the job's end, in the annotated type, for as long as it is kept."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest

from headrace import (
    App,
    ConfigurationError,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    JobStatus,
    ResultNotKept,
    ResultTimeout,
    RetryPolicy,
)
from headrace.core.messages.ids import new_id
from headrace.core.runtime.clock import MovableClock
from headrace.jobs.handles import lookup
from tests.unit.behaviour.work import drain, until


@dataclass
class Report:
    title: str
    at: datetime


class Receipt(pydantic.BaseModel):
    total: int


async def test_whoever_waits_is_woken_by_the_jobs_end(app: App) -> None:
    gate = asyncio.Event()

    @app.task(name="see")
    async def see() -> str:
        await gate.wait()
        return "seen"

    job = await see.enqueue()
    async with app.worker():
        waiting = [asyncio.create_task(job.result(timeout=10)) for _ in range(10)]
        await until(job, JobStatus.RUNNING)
        gate.set()
        assert await asyncio.gather(*waiting) == ["seen"] * 10


async def test_a_result_arrives_in_the_annotated_type(app: App) -> None:
    @app.task(name="report")
    async def report(title: str) -> Report:
        return Report(title, datetime(2030, 1, 1, tzinfo=UTC))

    @app.task(name="receipts")
    def receipts() -> list[Receipt]:
        return [Receipt(total=7)]

    one, other = await report.enqueue("sums"), await receipts.enqueue()
    await drain(app)
    assert await one.result() == Report("sums", datetime(2030, 1, 1, tzinfo=UTC))
    assert await other.result() == [Receipt(total=7)]


async def test_none_is_a_result_where_one_is_kept(app: App) -> None:
    @app.task(name="find")
    async def find() -> int | None:
        return None

    job = await find.enqueue()
    await drain(app)
    assert await job.result() is None


async def test_a_result_is_forgotten_after_its_time(app: App, clock: MovableClock) -> None:
    @app.task(name="see", result_ttl=60)
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await drain(app)
    clock.advance(30)
    assert await job.result() == 1
    clock.advance(31)
    assert await job.status() is JobStatus.SUCCEEDED, "the history knows it"
    with pytest.raises(ResultNotKept, match="succeeded, but its result was not kept, or its result_ttl is"):
        await job.result()


async def test_the_apps_time_holds_where_the_task_names_none(clock: MovableClock) -> None:
    async with App("memory://", clock=clock, result_ttl=10) as app:

        @app.task(name="see")
        async def see() -> int:
            return 1

        job, longer = await see.enqueue(), await see.with_(result_ttl=100).enqueue()
        await drain(app)
        clock.advance(11)
        with pytest.raises(ResultNotKept):
            await job.result()
        assert await longer.result() == 1


async def test_a_task_annotated_none_keeps_no_result_and_says_so_at_once(app: App) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    job = await see.enqueue()
    with pytest.raises(ResultNotKept, match="see keeps no result"):
        await job.result()
    with pytest.raises(ResultNotKept, match="keeps no result"):
        await app.job(job.id).result()
    await drain(app)
    assert await job.status() is JobStatus.SUCCEEDED, "the history knows it"
    assert await job.wait() is JobStatus.SUCCEEDED


async def test_a_task_annotated_none_keeps_its_success_where_it_names_a_time(app: App) -> None:
    @app.task(name="see", result_ttl=60)
    async def see() -> None: ...

    job = await see.enqueue()
    await drain(app)
    assert await job.status() is JobStatus.SUCCEEDED
    with pytest.raises(TypeError):
        len(await job.result())  # type: ignore[arg-type, func-returns-value]


async def test_a_time_of_zero_keeps_nothing(app: App) -> None:
    @app.task(name="see", result_ttl=0)
    async def see() -> int:
        return 1

    @app.task(name="hear")
    async def hear() -> int:
        return 1

    for job in (await see.enqueue(), await hear.with_(result_ttl=0).enqueue()):
        with pytest.raises(ResultNotKept, match="keeps no result"):
            await job.result()
        await drain(app)
        with pytest.raises(ResultNotKept):
            await job.result()


async def test_a_result_that_cannot_be_kept_is_a_success_with_a_reason(app: App) -> None:
    @app.task(name="see")
    async def see() -> Any:
        return object()

    job = await see.enqueue()
    await drain(app)
    assert await job.status() is JobStatus.SUCCEEDED
    with pytest.raises(ResultNotKept, match="succeeded, but the result cannot be encoded"):
        await job.result()
    assert "object" in (await job.info()).note


async def test_a_result_that_is_too_large_is_a_success_with_a_reason() -> None:
    async with App("memory://", max_payload=1000) as app:

        @app.task(name="see")
        async def see() -> str:
            return "x" * 2000

        job = await see.enqueue()
        await drain(app)
        with pytest.raises(ResultNotKept, match="the result has 2,003 bytes, more than the 1,000 allowed"):
            await job.result()


async def test_a_result_that_is_not_what_the_reader_expects_is_an_error_of_the_tree() -> None:
    url = f"memory://{new_id()}"
    async with App(url) as old, App(url) as new:

        @old.task(name="see")
        async def old_see() -> str:
            return "seen"

        @new.task(name="see")
        async def new_see() -> int:
            return 1

        job = await new_see.enqueue()
        await drain(old)
        with pytest.raises(InvalidPayload, match="a stored result of see does not fit"):
            await job.result()


async def test_waiting_ends_after_the_timeout_and_the_job_goes_on(app: App) -> None:
    gate = asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        await gate.wait()
        return 1

    job = await see.enqueue()
    async with app.worker():
        with pytest.raises(ResultTimeout, match="it goes on, ask again"):
            await job.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            await job.wait(timeout=0.01)
        gate.set()
        assert await job.result(timeout=10) == 1


async def test_a_timeout_says_that_no_worker_serves_the_queue(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "OVERTIME", 30.0)  # a busy machine needs more than a second to look

    @app.task(name="see", queue="mails")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    async with app.worker(queues=["default"]):
        for handle in (job, app.job(job.id)):
            with pytest.raises(ResultTimeout, match="no worker serves queue 'mails'; start one") as caught:
                await handle.result(timeout=0.01)
            assert caught.value.no_worker


async def test_a_wrong_timeout_is_refused(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    with pytest.raises(ConfigurationError, match="timeout must be seconds"):
        await job.result(timeout=-1)


async def test_waiting_with_no_time_at_all_just_asks(app: App) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    with pytest.raises(ResultTimeout):
        await job.result(timeout=0)
    await drain(app)
    assert await job.result(timeout=0) == 1


async def test_wait_returns_however_the_job_ends(app: App) -> None:
    @app.task(name="see", retry=RetryPolicy.none())
    async def see(how: str) -> int:
        if how == "dead":
            raise ValueError("no")
        return 1

    succeeded, dead, cancelled = await app.enqueue_many([see.call(how) for how in ("done", "dead", "gone")])
    await cancelled.cancel()
    async with app.worker():
        statuses = [await job.wait(timeout=10) for job in (succeeded, dead, cancelled)]
    assert statuses == [JobStatus.SUCCEEDED, JobStatus.DEAD, JobStatus.CANCELLED]
    with pytest.raises(JobFailed):
        await dead.result()
    with pytest.raises(JobCancelled):
        await cancelled.result()


async def test_of_a_job_that_never_was_nothing_is_known(app: App) -> None:
    job = app.job("no-such-job")
    assert await job.status() is JobStatus.UNKNOWN
    assert (await job.info()).status is JobStatus.UNKNOWN
    assert await job.wait() is JobStatus.UNKNOWN
    assert not await job.cancel()
    with pytest.raises(ResultNotKept, match="never enqueued, or is already forgotten"):
        await job.result()


async def test_a_handle_can_be_had_for_an_id_alone_or_with_its_queue(app: App) -> None:
    @app.task(name="see", queue="sights")
    async def see(n: int) -> Report:
        return Report("sight", datetime(2030, 1, 1, tzinfo=UTC))

    job = await see.enqueue(1)
    await drain(app)
    for handle in (app.job(job.id), app.job(job.id, queue="sights")):
        assert await handle.status() is JobStatus.SUCCEEDED
        assert await handle.result() == Report("sight", datetime(2030, 1, 1, tzinfo=UTC))
    assert await app.job(job.id, queue="default").status() is JobStatus.UNKNOWN


async def test_a_result_of_a_task_that_is_not_known_here_is_plain_data() -> None:
    url = f"memory://{new_id()}"
    async with App(url) as producer, App(url) as reader:

        @producer.task(name="report")
        async def report() -> Report:
            return Report("sums", datetime(2030, 1, 1, tzinfo=UTC))

        job = await report.enqueue()
        await drain(producer)
        result = await reader.job(job.id).result()
        assert result["title"] == "sums"


async def test_the_status_follows_the_job(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    scheduled = await see.with_(delay=60).enqueue()
    assert await scheduled.status() is JobStatus.SCHEDULED
    job = await see.enqueue()
    assert await job.status() is JobStatus.QUEUED
    async with app.worker():
        await inside.wait()
        assert await job.status() is JobStatus.RUNNING
        gate.set()
        await job.wait(timeout=10)
    assert await job.status() is JobStatus.SUCCEEDED


async def test_the_info_tells_times_and_the_worker(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", queue="sights", priority="high")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    job = await see.enqueue()
    waiting = await job.info()
    assert (waiting.task, waiting.queue, waiting.priority, waiting.attempts) == ("see", "sights", "high", 0)
    assert waiting.enqueued_at is not None
    assert waiting.enqueued_at.timestamp() == pytest.approx(time.time(), abs=5)
    async with app.worker() as worker:
        await inside.wait()
        running = await job.info()
        assert (running.worker, running.attempts) == (worker.id, 1)
        assert running.started_at is not None
        assert running.started_at >= waiting.enqueued_at
        gate.set()
        await job.wait(timeout=10)
    ended = await job.info()
    assert ended.ended_at is not None
    assert ended.ended_at >= running.started_at
