"""A task that a test calls as a function: `current_job()` works in it."""

from __future__ import annotations

import pytest

from headrace import App, Depends, HeadraceError, current_job
from headrace.testing import Kit, memory, run_inline


def test_a_plain_task_has_a_run_and_its_progress_is_seen(app: App, kit: Kit) -> None:
    @app.task(name="render", queue="reports")
    def render(pages: int) -> tuple[str, str, int, bool]:
        for page in range(pages):
            current_job().progress_sync((page + 1) / pages, f"page {page + 1}")
        run = current_job()
        return run.task, run.queue, run.attempt, run.cancelled

    assert render(2) == ("render", "reports", 1, False)
    assert [(each.fraction, each.text) for each in kit.reported] == [(0.5, "page 1"), (1.0, "page 2")]
    kit.clear()
    assert kit.reported == []
    with pytest.raises(HeadraceError, match="outside of a job"):
        current_job()


async def test_an_async_task_has_a_run_of_its_own_for_each_call(app: App, kit: Kit) -> None:
    @app.task(name="render")
    async def render() -> str:
        await current_job().progress(0.5)
        assert current_job().headers == {}
        return current_job().id

    assert await render() != await render()
    assert len(kit.reported) == 2


async def test_inside_a_job_it_is_the_run_of_that_job(app: App, kit: Kit) -> None:
    @app.task(name="part")
    async def part() -> str:
        return current_job().task

    @app.task(name="whole")
    async def whole() -> str:
        return await part()

    job = await whole.enqueue()
    await kit.drain(raise_errors=True)
    assert await job.result() == "whole"
    assert await whole() == "whole"


async def test_dependencies_and_batches_work_as_without_a_kit(app: App, kit: Kit) -> None:
    def greeting() -> str:
        return f"hello from {current_job().task}"

    @app.task(name="greet")
    async def greet(text: str = Depends(greeting)) -> str:
        return text

    @app.task(name="index", batch=10)
    async def index(names: list[str]) -> list[str]:
        return [f"{current_job().task} {name}" for name in names]

    assert await greet() == "hello from greet"
    assert await index(["a", "b"]) == ["index a", "index b"]


async def test_without_a_kit_there_is_no_job(app: App) -> None:
    @app.task(name="render")
    async def render() -> None:
        await current_job().progress(0.5)

    with memory(app), run_inline(app):
        await render()
    with pytest.raises(HeadraceError, match="outside of a job"):
        await render()
