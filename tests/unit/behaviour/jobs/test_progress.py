"""Progress: what a job says of itself while it runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import App, HeadraceError, Job, JobProgress, JobStatus, RetryPolicy, current_job
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Report
from headrace.engine.running.run import PROGRESS_TEXT
from headrace.engine.upkeep import progress
from headrace.signals import BackendError, Signal
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of, until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.01)


@pytest.fixture
def written(store: InterceptedStore) -> list[list[Report]]:
    """What reaches the store, batch by batch; an empty batch is an idle round."""
    report, batches = store.report_progress, list[list[Report]]()

    async def counted(reports: Sequence[Report]) -> None:
        batches.append(list(reports))
        await report(reports)

    store.intercept("report_progress", counted)
    return batches


async def shown(job: Job[Any]) -> tuple[float, str] | None:
    progress = (await job.info()).progress
    return (progress.fraction, progress.text) if progress else None


async def until_shown(job: Job[Any], fraction: float, text: str) -> None:
    async def is_shown() -> bool:
        return await shown(job) == (fraction, text)

    await wait_until(is_shown, message=f"{fraction} {text}")


async def test_what_a_coroutine_says_is_seen_in_info(app: App) -> None:
    go = asyncio.Event()

    @app.task(name="read")
    async def read() -> int:
        await current_job().progress(0.4, "reading")
        await go.wait()
        await current_job().progress(0.9)
        await asyncio.Event().wait()
        return 1

    job = await read.enqueue()
    assert (await job.info()).progress is None
    async with app.worker(grace=0):
        await until_shown(job, 0.4, "reading")
        progress = (await job.info()).progress
        assert isinstance(progress, JobProgress)
        assert abs((progress.at - datetime.now(UTC)).total_seconds()) < 10
        go.set()
        await until_shown(job, 0.9, "")
    assert (await job.info()).progress is None


async def test_a_plain_function_says_it_from_its_thread(app: App) -> None:
    go = threading.Event()

    @app.task(name="count")
    def count() -> str:
        current_job().progress_sync(0.5, "half")
        go.wait(10)
        return threading.current_thread().name

    job = await count.enqueue()
    async with app.worker():
        await until_shown(job, 0.5, "half")
        go.set()
        assert await job.result(timeout=10) != threading.current_thread().name
    assert await shown(job) is None


async def test_ten_thousand_times_cost_few_writes(app: App, written: list[list[Report]]) -> None:
    seconds: list[float] = []

    @app.task(name="chatter")
    async def chatter() -> None:
        began = time.thread_time()
        for number in range(10_000):
            await current_job().progress(number / 10_000, f"row {number}")
        seconds.append(time.thread_time() - began)
        await asyncio.Event().wait()

    job = await chatter.enqueue()
    async with app.worker(grace=0):
        await until_shown(job, 0.9999, "row 9999")
    assert len([batch for batch in written if batch]) == 1
    assert seconds[0] < 1


async def test_what_has_not_changed_is_not_written_again(app: App, written: list[list[Report]]) -> None:
    @app.task(name="wait")
    async def wait(name: str) -> None:
        await current_job().progress(0.1, name)
        await asyncio.Event().wait()

    async with app.worker(grace=0):
        for name in "abc":
            await until_shown(await wait.enqueue(name), 0.1, name)
    assert [report.text for batch in written for report in batch] == ["a", "b", "c"]


async def test_with_nothing_to_say_the_store_is_left_alone(app: App, written: list[list[Report]]) -> None:
    @app.task(name="quiet")
    async def quiet() -> None:
        await asyncio.Event().wait()

    @app.task(name="loud")
    async def loud() -> None:
        await current_job().progress(0.1, "here")
        await asyncio.Event().wait()

    job = await quiet.enqueue()
    async with app.worker(grace=0):
        await until(job, JobStatus.RUNNING)
        await until_shown(await loud.enqueue(), 0.1, "here")
    assert [report.text for batch in written for report in batch] == ["here"]
    assert all(written), "no request without a report"


async def test_a_store_that_was_away_gets_it_later(
    app: App, store: InterceptedStore, heard: list[Signal]
) -> None:
    report, away = store.report_progress, [True]

    async def flaky(reports: Sequence[Report]) -> None:
        if away[0]:
            raise BackendUnavailable("away")
        await report(reports)

    store.intercept("report_progress", flaky)

    @app.task(name="say")
    async def say() -> None:
        await current_job().progress(0.3, "once")
        await asyncio.Event().wait()

    job = await say.enqueue()
    async with app.worker(grace=0):
        await wait_until(lambda: of(BackendError, heard))
        away[0] = False
        await until_shown(job, 0.3, "once")


async def test_the_next_attempt_begins_without_it(app: App) -> None:
    @app.task(name="twice", retry=RetryPolicy.fixed(1, 0))
    async def twice() -> int:
        if current_job().attempt == 1:
            await current_job().progress(0.8, "first")
            await until_shown(app.job(current_job().id), 0.8, "first")
            raise ValueError("no")
        seen = await shown(app.job(current_job().id))
        return 1 if seen is None else 0

    job = await twice.enqueue()
    async with app.worker(lease=LONG):
        assert await job.result(timeout=10) == 1


async def test_a_job_that_is_over_has_none(app: App) -> None:
    @app.task(name="say")
    async def say() -> int:
        await current_job().progress(1.0, "ready")
        await until_shown(app.job(current_job().id), 1.0, "ready")
        return 1

    job = await say.enqueue()
    await drain(app)
    info = await job.info()
    assert (info.status, info.progress) == (JobStatus.SUCCEEDED, None)


async def test_listings_show_it(app: App) -> None:
    @app.task(name="say")
    async def say() -> None:
        await current_job().progress(0.25, "a quarter")
        await asyncio.Event().wait()

    job = await say.enqueue()
    async with app.worker(grace=0):
        await until_shown(job, 0.25, "a quarter")
        (info,) = await app.admin.jobs("default")
        assert info.progress is not None
        assert info.progress.text == "a quarter"


async def test_outside_of_a_job_there_is_nobody_to_tell() -> None:
    with pytest.raises(HeadraceError, match="outside of a job"):
        await current_job().progress(0.5)


@pytest.mark.parametrize("fraction", [-0.01, 1.01, 40, float("nan"), float("inf")])
async def test_what_is_no_fraction_is_refused_and_says_why(app: App, fraction: float) -> None:
    @app.task(name="say")
    async def say() -> str:
        try:
            await current_job().progress(fraction)
        except ValueError as error:
            return str(error)
        return "accepted"

    job = await say.enqueue()
    await drain(app)
    assert await job.result() == f"progress is a fraction from 0 to 1, not {fraction!r}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("x" * 5000, "x" * (PROGRESS_TEXT - 1) + "…"),
        ("x" * PROGRESS_TEXT, "x" * PROGRESS_TEXT),
        ("lone \ud800 half", "lone ? half"),
        ("nul \0 byte", "nul   byte"),
    ],
)
async def test_a_text_is_cut_to_what_every_store_can_keep(app: App, said: str, kept: str) -> None:
    @app.task(name="say")
    async def say() -> None:
        await current_job().progress(0.5, said)
        await asyncio.Event().wait()

    job = await say.enqueue()
    async with app.worker(grace=0):
        await until_shown(job, 0.5, kept)


async def test_a_job_that_ended_says_no_more(app: App, written: list[list[Report]]) -> None:
    runs = []

    @app.task(name="leave")
    async def leave() -> int:
        runs.append(current_job())
        return 1

    await leave.enqueue()
    await drain(app)
    runs[0].progress_sync(0.5, "late")
    assert runs[0].reported is None
