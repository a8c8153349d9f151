"""`app.admin.clean`, `remove_queue` and `release_key`."""

from __future__ import annotations

import asyncio

import pytest

from headrace import App, ConfigurationError, JobStatus, RetryPolicy
from headrace.core.runtime.clock import MovableClock
from tests.unit.behaviour.work import LONG, drain, until


async def test_waiting_jobs_of_one_state_are_cancelled(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    queued, scheduled = await see.enqueue(1), await see.with_(delay=60).enqueue(2)
    assert await app.admin.clean("default", state="queued") == 1
    assert await queued.status() is JobStatus.CANCELLED
    assert await scheduled.status() is JobStatus.SCHEDULED
    assert await app.admin.clean("default", state=JobStatus.SCHEDULED) == 1


async def test_only_old_jobs_are_removed(app: App, clock: MovableClock) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    old = await see.enqueue(1)
    clock.advance(100)
    young = await see.enqueue(2)
    assert await app.admin.clean("default", state="queued", older_than=50) == 1
    assert await old.status() is JobStatus.CANCELLED
    assert await young.status() is JobStatus.QUEUED


async def test_dead_letters_and_ended_jobs_are_deleted_by_their_end(app: App, clock: MovableClock) -> None:
    @app.task(name="see", retry=RetryPolicy.none(), result_ttl=10_000)
    async def see(n: int) -> int:
        return 1 // n

    old = [await see.enqueue(n) for n in (0, 1)]
    await drain(app)
    clock.advance(100)
    young = [await see.enqueue(n) for n in (0, 1)]
    await drain(app)
    assert await app.admin.clean("default", older_than=50) == 1
    assert await app.admin.clean("default", state="dead", older_than=50) == 1
    assert [await job.status() for job in old] == [JobStatus.UNKNOWN] * 2
    assert [await job.status() for job in young] == [JobStatus.DEAD, JobStatus.SUCCEEDED]


async def test_without_a_state_neither_waiting_jobs_nor_dead_letters_are_removed(app: App) -> None:
    @app.task(name="see", retry=RetryPolicy.none())
    async def see(n: int) -> int:
        return 1 // n

    await see.enqueue(0)
    await drain(app)
    await see.enqueue(1)
    assert await app.admin.clean("default") == 0


async def test_thousands_are_cleaned_in_steps(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> None: ...

    await app.enqueue_many([see.call(n) for n in range(2000)])
    assert await app.admin.clean("default", state="queued") == 2000
    assert await app.admin.clean("default", state="cancelled") == 2000


@pytest.mark.parametrize("state", ["running", "unknown", "nonsense"])
async def test_a_state_that_cannot_be_cleaned_is_refused(app: App, state: str) -> None:
    with pytest.raises(ConfigurationError, match="clean takes one of the states queued"):
        await app.admin.clean("default", state=state)


# --- remove_queue -----------------------------------------------------------------------------------------


async def test_an_empty_queue_is_removed_with_what_is_kept_of_its_jobs(app: App) -> None:
    @app.task(name="see", queue="mails")
    async def see(n: int) -> int:
        return n

    job = await see.enqueue(1)
    await app.worker(queues=["mails"], lease=LONG).run(burst=True)
    assert await app.admin.remove_queue("mails")
    assert await job.status() is JobStatus.UNKNOWN
    assert "mails" not in [queue.name for queue in await app.admin.queues()]
    assert not await app.admin.remove_queue("mails")


async def test_a_queue_in_use_is_not_removed(app: App) -> None:
    @app.task(name="see", queue="mails")
    async def see(n: int) -> int:
        return n

    job = await see.enqueue(1)
    with pytest.raises(ConfigurationError, match="'mails' holds 1 queued: run, purge or discard"):
        await app.admin.remove_queue("mails")
    await job.cancel()
    await app.schedules.add("often", see.call(1), every=60)
    with pytest.raises(ConfigurationError, match="'mails' holds 1 schedules"):
        await app.admin.remove_queue("mails")


async def test_with_force_everything_is_removed(app: App) -> None:
    inside, cancelled = asyncio.Event(), asyncio.Event()

    @app.task(name="see", queue="mails", retry=RetryPolicy.none())
    async def see(how: str) -> None:
        if how == "fail":
            raise ValueError(how)
        inside.set()
        await cancelled.wait()

    jobs = [await see.enqueue("fail")]
    await app.worker(queues=["mails"], lease=LONG).run(burst=True)
    jobs.append(await see.enqueue("run"))
    async with app.worker(queues=["mails"], concurrency=1, lease=LONG):
        await inside.wait()
        jobs += [await see.enqueue("wait"), await see.with_(delay=60).enqueue("later")]
        await app.schedules.add("often", see.call("wait"), every=60)
        await app.admin.pause("mails")
        assert await app.admin.remove_queue("mails", force=True)
        cancelled.set()
    assert {await job.status() for job in jobs} == {JobStatus.UNKNOWN}
    assert await app.schedules.list() == []


# --- release_key ------------------------------------------------------------------------------------------


async def test_a_key_is_released_and_another_job_takes_it(app: App) -> None:
    gate = asyncio.Event()

    @app.task(name="see", unique=True)
    async def see(n: int) -> None:
        await gate.wait()

    stuck = await see.with_(unique_key="customer-7").enqueue(1)
    async with app.worker(lease=LONG):
        await until(stuck, JobStatus.RUNNING)
        assert await app.admin.release_key("default", "customer-7")
        assert not await app.admin.release_key("default", "customer-7")
        other = await see.with_(unique_key="customer-7").enqueue(2)
        assert not other.duplicate
        gate.set()
        await other.wait()


async def test_a_key_made_from_arguments_is_released_as_it_is_shown(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> None: ...

    job = await see.enqueue(1)
    assert await app.admin.release_key("default", (await job.info()).unique_key)
    assert not (await see.enqueue(1)).duplicate
