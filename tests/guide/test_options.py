"""Options stand on the task, and one call may say otherwise."""

from __future__ import annotations

from headrace import App, JobStatus


async def test_a_call_may_wait() -> None:
    app = App("memory://")

    @app.task
    async def remind(what: str) -> None: ...

    async with app:
        job = await remind.with_(delay=60).enqueue("the milk")
        assert await job.status() is JobStatus.SCHEDULED


async def test_a_call_may_be_urgent() -> None:
    app = App("memory://")
    order: list[str] = []

    @app.task(queue="mails", priority="low")
    async def send(to: str) -> None:
        order.append(to)

    async with app:
        await send.enqueue("everybody")
        await send.with_(priority="high").enqueue("the boss")
        await app.worker(concurrency=1).run(burst=True)
    assert order == ["the boss", "everybody"]
