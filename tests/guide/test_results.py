"""A result is kept for a while, in the type that the function returns."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headrace import App, JobFailed, ResultNotKept, RetryPolicy


@dataclass
class Report:
    title: str
    pages: int


async def test_a_result_arrives_in_its_type() -> None:
    app = App("memory://")

    @app.task(result_ttl=86400)
    async def render(title: str) -> Report:
        return Report(title, pages=3)

    async with app, app.worker():
        job = await render.enqueue("sums")
        assert await job.result(timeout=10) == Report("sums", pages=3)


async def test_an_error_arrives_as_text() -> None:
    app = App("memory://")

    @app.task(retry=RetryPolicy.none())
    async def render(title: str) -> Report:
        raise LookupError(f"nothing called {title}")

    async with app, app.worker():
        job = await render.enqueue("sums")
        with pytest.raises(JobFailed) as failed:
            await job.result(timeout=10)
    assert failed.value.error_type == "LookupError"
    assert failed.value.error == "nothing called sums"
    assert "raise LookupError" in failed.value.traceback


async def test_what_returns_nothing_keeps_nothing() -> None:
    app = App("memory://")

    @app.task
    async def notify(to: str) -> None: ...

    async with app, app.worker():
        job = await notify.enqueue("ada")
        with pytest.raises(ResultNotKept):
            await job.result()
        await job.wait(timeout=10)  # until it is over, result or not
