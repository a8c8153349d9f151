"""current_job(): what a handler can know of the job it runs for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace import App, HeadraceError, JobStatus, RetryPolicy, current_job
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import MovableClock, microseconds
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import LONG, drain, until


async def test_outside_of_a_job_there_is_none() -> None:
    with pytest.raises(HeadraceError, match="outside of a job"):
        current_job()


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_a_handler_knows_its_job(app: App, kind: str) -> None:
    def look() -> list[object]:
        run = current_job()
        return [run.id, run.task, run.queue, run.attempt, run.redelivered, dict(run.headers), run.cancelled]

    @app.task(name="coroutine", queue="sights")
    async def coroutine() -> list[object]:
        await asyncio.sleep(0)
        return look()

    @app.task(name="plain", queue="sights")
    def plain() -> list[object]:
        return look()

    task = app.tasks[kind]
    job = await task.with_(headers={"source": "web"}).enqueue()
    await drain(app)
    assert await job.result() == [job.id, kind, "sights", 1, False, {"source": "web"}, False]


async def test_without_headers_there_are_none_and_they_cannot_be_changed(app: App) -> None:
    @app.task(name="see", retry=RetryPolicy.none())
    async def see() -> int:
        current_job().headers["a"] = "b"  # type: ignore[index]
        return 1

    job = await see.enqueue()
    await drain(app)
    assert await job.status() is JobStatus.DEAD


async def test_it_is_inherited_by_child_tasks_and_threads(app: App) -> None:
    @app.task(name="see")
    async def see() -> list[str]:
        async def child() -> str:
            return current_job().id

        async with asyncio.TaskGroup() as group:
            task = group.create_task(child())
        return [task.result(), await asyncio.to_thread(lambda: current_job().id)]

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == [job.id, job.id]


async def test_a_thread_started_by_hand_does_not_inherit_it(app: App) -> None:
    @app.task(name="see")
    def see() -> str:
        errors: list[str] = []

        def look() -> None:
            try:
                current_job()
            except HeadraceError as error:
                errors.append(str(error))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return errors[0]

    job = await see.enqueue()
    await drain(app)
    assert "outside of a job" in await job.result()


async def test_jobs_side_by_side_each_see_their_own(app: App) -> None:
    @app.task(name="see")
    async def see() -> list[str]:
        ids = []
        for _ in range(5):
            ids.append(current_job().id)
            await asyncio.sleep(0)
        return ids

    jobs = await app.enqueue_many([see.call() for _ in range(20)])
    await drain(app, concurrency=7)
    for job in jobs:
        assert set(await job.result()) == {job.id}


async def test_a_job_handed_back_by_a_stopping_worker_is_redelivered_on_its_first_attempt(app: App) -> None:
    inside, seen = asyncio.Event(), list[tuple[int, bool]]()

    @app.task(name="see")
    async def see() -> int:
        seen.append((current_job().attempt, current_job().redelivered))
        inside.set()
        if len(seen) == 1:
            await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    async with app.worker(grace=0):
        await inside.wait()
    assert await job.status() is JobStatus.QUEUED
    await drain(app)
    assert seen == [(1, False), (1, True)]


async def test_a_job_whose_worker_was_lost_is_redelivered_on_its_next_attempt(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    @app.task(name="see")
    async def see() -> tuple[int, bool]:
        return current_job().attempt, current_job().redelivered

    job = await see.enqueue()
    source = Stream("queue", "default")
    await store.declare_stream(source, microseconds(LONG))
    (claim,) = await store.claim([source], consumer="a worker that dies", limit=1, suspects=0, wait=0)
    assert claim.id == job.id
    clock.advance(LONG + 1)
    await drain(app)
    assert await job.result() == (2, True)


async def test_a_retry_is_not_a_redelivery(app: App, store: InterceptedStore) -> None:
    @app.task(name="see", retry=RetryPolicy.fixed(1, 60))
    async def see() -> tuple[int, bool]:
        if current_job().attempt == 1:
            raise ValueError("no")
        return current_job().attempt, current_job().redelivered

    job = await see.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
        store.pass_time(60)
        assert await job.result(timeout=10) == (2, False)


async def test_a_run_says_what_it_is(app: App) -> None:
    @app.task(name="see")
    async def see() -> str:
        return repr(current_job())

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == f"<Run of see {job.id} attempt 1>"
