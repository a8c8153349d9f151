"""A job is a function call that a worker runs later, elsewhere."""

from __future__ import annotations

from headrace import App


async def test_a_first_job() -> None:
    app = App("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, app.worker():
        job = await add.enqueue(2, 3)
        assert await job.result(timeout=10) == 5


async def test_a_plain_function_runs_in_a_thread() -> None:
    app = App("memory://")

    @app.task
    def shout(text: str) -> str:
        return text.upper()

    async with app, app.worker():
        job = await shout.enqueue("hello")
        assert await job.result(timeout=10) == "HELLO"


async def test_calling_a_task_runs_it_here_and_now() -> None:
    app = App("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def shout(text: str) -> str:
        return text.upper()

    assert await add(2, 3) == 5
    assert shout("hello") == "HELLO"


async def test_many_jobs_are_enqueued_together() -> None:
    app = App("memory://")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, app.worker():
        jobs = await app.enqueue_many([double.call(n) for n in range(1000)])
        assert [await job.result(timeout=10) for job in jobs[:3]] == [0, 2, 4]
