"""App(lifespan=...): entered before a worker's first job, left after its last outcome is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace import App, JobStatus, current_job, signals
from tests.unit.behaviour.work import of


async def test_what_it_yields_is_the_state_of_every_job_here_and_in_threads() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, int]]:
        yield {"pool": 7}

    app = App("memory://", lifespan=lifespan)

    @app.task(name="coroutine")
    async def coroutine() -> int:
        return int(current_job().state["pool"])

    @app.task(name="plain")
    def plain() -> int:
        return int(current_job().state["pool"])

    async with app:
        jobs = [await coroutine.enqueue(), await plain.enqueue()]
        await app.worker().run(burst=True)
        assert [await job.result() for job in jobs] == [7, 7]


async def test_it_may_take_the_app() -> None:
    seen: list[App] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        seen.append(app)
        yield

    app = App("memory://", lifespan=lifespan)
    async with app, app.worker():
        assert seen == [app]


async def test_a_bare_async_generator_will_do() -> None:
    story: list[str] = []

    async def lifespan() -> AsyncIterator[None]:
        story.append("in")
        yield
        story.append("out")

    app = App("memory://", lifespan=lifespan)  # type: ignore[arg-type]
    async with app, app.worker():
        assert story == ["in"]
    assert story == ["in", "out"]


async def test_it_is_entered_once_and_left_when_the_last_outcome_is_written() -> None:
    story: list[object] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        story.append("in")
        yield
        story.append(await job.status())

    app = App("memory://", lifespan=lifespan)

    @app.task(name="work")
    async def work() -> int:
        story.append("job")
        return 1

    async with app:
        await work.enqueue()
        job = await work.enqueue()
        await app.worker().run(burst=True)
    assert story == ["in", "job", "job", JobStatus.SUCCEEDED]


async def test_without_one_the_state_is_none(app: App) -> None:
    @app.task(name="look")
    async def look() -> bool:
        return current_job().state is None

    job = await look.enqueue()
    await app.worker().run(burst=True)
    assert await job.result() is True


async def test_an_error_on_entering_stops_the_start() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    app = App("memory://", lifespan=lifespan)
    async with app:
        worker = app.worker()
        with pytest.raises(ConnectionError, match="no database"):
            await worker.run()
        assert await app.admin.workers() == []


async def test_an_error_on_leaving_is_announced_and_costs_no_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        raise ConnectionError("already closed")

    app = App("memory://", lifespan=lifespan)
    heard: list[signals.Signal] = []
    app.on(signals.Signal)(heard.append)

    @app.task(name="work")
    async def work() -> int:
        return 1

    async with app:
        job = await work.enqueue()
        await app.worker().run(burst=True)
        assert await job.result() == 1
    [failed] = of(signals.CleanupFailed, heard)
    assert (failed.resource, failed.error) == ("the lifespan", "ConnectionError: already closed")
    assert of(signals.WorkerStopped, heard)
    assert "the cleanup of the lifespan failed: ConnectionError: already closed" in caplog.text


async def test_it_may_hold_a_task_group() -> None:
    ticks: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[asyncio.Event]:
        ticked = asyncio.Event()

        async def tick() -> None:
            ticks.append("tick")
            ticked.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(tick())
            yield ticked

    app = App("memory://", lifespan=lifespan)

    @app.task(name="work")
    async def work() -> int:
        await current_job().state.wait()
        return 1

    async with app:
        job = await work.enqueue()
        await app.worker().run(burst=True)
        assert (await job.result(), ticks) == (1, ["tick"])


async def test_a_background_task_of_it_that_fails_is_announced_at_once() -> None:
    failed = asyncio.Event()
    heard: list[Any] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        async def fail() -> None:
            raise ConnectionError("gone")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            yield

    app = App("memory://", lifespan=lifespan)

    @app.on(signals.CleanupFailed)
    def hear(signal: signals.CleanupFailed) -> None:
        heard.append(signal)
        failed.set()

    async with app, app.worker():
        await asyncio.wait_for(failed.wait(), 10)
    assert len(heard) == 1


async def test_a_start_that_is_cancelled_leaves_it() -> None:
    inside, story = asyncio.Event(), list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            story.append("left")
        yield

    app = App("memory://", lifespan=lifespan)
    async with app:
        starting = asyncio.ensure_future(app.worker().run())
        await inside.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert story == ["left"]


async def test_two_workers_each_have_their_own() -> None:
    entered: list[int] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[int]:
        entered.append(1)
        yield len(entered)

    app = App("memory://", lifespan=lifespan)
    async with app, app.worker(), app.worker():
        assert len(entered) == 2
