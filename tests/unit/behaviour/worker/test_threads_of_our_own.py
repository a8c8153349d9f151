"""The loop's default executor belongs to the user, and a thread that hangs delays no other work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace import App, Depends, JobStatus, RetryPolicy, Run
from tests.support.waiting import wait_until


@pytest.fixture
async def taken() -> AsyncIterator[None]:
    """Every thread of the default executor is taken."""
    gate = threading.Event()
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    waiting = asyncio.get_running_loop().run_in_executor(None, gate.wait, 60)
    yield
    gate.set()
    await waiting


@pytest.mark.usefixtures("taken")
async def test_a_worker_works_and_stops_while_the_default_executor_is_taken(app: App) -> None:
    def made() -> int:
        return 21

    @app.task(name="double")
    def double(n: int = Depends(made, scope="worker")) -> int:
        return 2 * n

    async with asyncio.timeout(10):
        async with app.worker():
            assert await (await double.enqueue()).result() == 42


@pytest.mark.usefixtures("taken")
async def test_a_file_is_examined_while_the_default_executor_is_taken(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    app = App(f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db")
    async with asyncio.timeout(10), app:
        assert await app.admin.doctor()


class Cut:
    """An app whose middleware gives plain functions a moment, and one such function that hangs."""

    def __init__(self, app: App) -> None:
        self.gate, self.runs = threading.Event(), 0

        @app.use
        async def cut_off(run: Run, call_next: Callable[[Run], Awaitable[object]]) -> object:
            if run.task != "hang":
                return await call_next(run)
            async with asyncio.timeout(0.01):
                return await call_next(run)

        @app.task(name="hang", retry=RetryPolicy.none())
        def hang() -> None:
            self.runs += 1
            self.gate.wait(60)

        @app.task(name="double")
        def double(n: int) -> int:
            return 2 * n

        self.hang, self.double = hang, double


async def test_a_thread_that_middleware_gave_up_holds_up_no_other_job(app: App) -> None:
    cut = Cut(app)
    try:
        async with app.worker(concurrency=1):
            for n in range(5):
                assert await (await cut.hang.enqueue()).wait(timeout=10) is JobStatus.DEAD
                assert await (await cut.double.enqueue(n)).result(timeout=10) == 2 * n
    finally:
        cut.gate.set()


async def test_such_threads_end_when_they_can(app: App) -> None:
    cut, before = Cut(app), threading.active_count()
    async with app.worker(concurrency=2):
        for _ in range(6):
            assert await (await cut.hang.enqueue()).wait(timeout=10) is JobStatus.DEAD
        cut.gate.set()
        assert await (await cut.double.enqueue(1)).result(timeout=10) == 2
    await wait_until(lambda: threading.active_count() <= before)
