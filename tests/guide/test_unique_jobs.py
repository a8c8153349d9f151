"""A unique job is stored once. To enqueue it again gives the handle of the job that is there."""

from __future__ import annotations

from headrace import App


async def test_the_same_call_is_stored_once() -> None:
    app = App("memory://")

    @app.task(unique=True)
    async def rebuild(index: str) -> str:
        return f"{index} rebuilt"

    async with app:
        first = await rebuild.enqueue("customers")
        second = await rebuild.enqueue("customers")
        assert second.id == first.id
        assert second.duplicate
        assert not (await rebuild.enqueue("orders")).duplicate


async def test_a_key_of_your_own() -> None:
    app = App("memory://")

    @app.task
    async def sync(customer: int, reason: str) -> None: ...

    async with app:
        first = await sync.with_(unique_key="customer-7").enqueue(7, "ordered")
        second = await sync.with_(unique_key="customer-7").enqueue(7, "moved")
        assert second.id == first.id


async def test_unique_until_it_has_started() -> None:
    app = App("memory://")

    @app.task(unique=True, unique_until="started")
    async def rebuild() -> bool:
        # While this runs, what has changed meanwhile asks for one more.
        return (await rebuild.enqueue()).duplicate

    async with app, app.worker(concurrency=1):
        job = await rebuild.enqueue()
        assert await job.result(timeout=10) is False
