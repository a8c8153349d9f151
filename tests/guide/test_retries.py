"""A job that fails is tried again, as its task says, and in the end laid aside."""

from __future__ import annotations

from headrace import App, JobStatus, RetryLater, RetryPolicy, Snooze, Unrecoverable, current_job


async def test_a_failed_job_is_tried_again() -> None:
    app = App("memory://")

    @app.task(retry=RetryPolicy.exponential(5, base=0.001))
    async def fetch() -> str:
        if current_job().attempt < 3:
            raise ConnectionError("the line is busy")
        return f"fetched on attempt {current_job().attempt}"

    async with app, app.worker():
        job = await fetch.enqueue()
        assert await job.result(timeout=10) == "fetched on attempt 3"


async def test_a_function_may_decide() -> None:
    app = App("memory://")

    def patient_with_the_network(failures: int, error: BaseException) -> float | None:
        return 0.001 * failures if isinstance(error, ConnectionError) else None

    @app.task(retry=patient_with_the_network)
    async def fetch() -> None:
        raise ConnectionError("busy") if current_job().attempt == 1 else ValueError("no such page")

    async with app:
        job = await fetch.enqueue()
        await app.worker().run(burst=True)
        assert (await job.info()).failures == 2
        assert await job.status() is JobStatus.DEAD


async def test_a_handler_may_say_what_is_to_happen() -> None:
    app = App("memory://")

    @app.task
    async def charge(customer: str) -> None:
        match customer:
            case "unknown":
                raise Unrecoverable("no such customer")  # to the dead letters, now
            case "busy":
                raise RetryLater(30)  # a failure, and the next try in half a minute
            case _:
                raise Snooze(3600)  # not yet: again in an hour, at no cost

    async with app:
        unknown, busy, other = await app.enqueue_many([charge.call(c) for c in ("unknown", "busy", "other")])
        async with app.worker():
            await unknown.wait(timeout=10)
        assert await unknown.status() is JobStatus.DEAD
        assert await busy.status() is JobStatus.RETRYING
        assert await other.status() is JobStatus.SCHEDULED
