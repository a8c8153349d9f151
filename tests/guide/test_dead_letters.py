"""A job that cannot be done becomes a dead letter, with its arguments and the reason, until it is replayed or
discarded."""

from __future__ import annotations

from headrace import App, JobStatus, RetryPolicy


async def test_dead_letters_are_looked_at_and_replayed() -> None:
    app = App("memory://")
    broken = True

    @app.task(retry=RetryPolicy.none())
    async def charge(customer: int) -> str:
        if broken:
            raise ConnectionError("the bank is closed")
        return "charged"

    async with app:
        job = await charge.enqueue(7)
        await app.worker().run(burst=True)

        (letter,) = await app.admin.dead(queue="default")
        assert letter.id == job.id
        assert letter.reason == "exhausted"
        assert letter.error == "the bank is closed"
        assert letter.attempts == 1

        broken = False
        assert await app.admin.replay(ids=[letter.id]) == 1
        await app.worker().run(burst=True)
        assert await job.result() == "charged"


async def test_dead_letters_are_discarded() -> None:
    app = App("memory://")

    @app.task(retry=RetryPolicy.none())
    async def charge(customer: int) -> None:
        raise ConnectionError("the bank is closed")

    async with app:
        job = await charge.enqueue(7)
        await app.worker().run(burst=True)
        assert await app.admin.discard(reason="exhausted") == 1
        assert await job.status() is JobStatus.UNKNOWN
