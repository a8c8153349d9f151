"""The calls of `on_dead` in users' own tests."""

from __future__ import annotations

from headrace import App, RetryPolicy
from headrace.testing import memory


async def test_a_drain_runs_the_calls_for_deaths() -> None:
    app = App("memory://")
    reports: list[str] = []

    @app.task(name="report", queue="reports")
    async def report(id: str, task: str, queue: str, reason: str, error: str) -> None:
        reports.append(id)

    app.queue("mails", on_dead=report)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    with memory(app) as kit:
        job = await send.enqueue()
        await kit.drain()
    assert reports == [job.id]
