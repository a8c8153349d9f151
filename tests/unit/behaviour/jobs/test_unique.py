"""Unique jobs: the second enqueue is answered with the first job, within one of three windows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headrace import App, JobExpired, JobStatus, RetryPolicy
from headrace.core.messages.ids import new_id
from headrace.core.runtime.clock import MovableClock
from tests.unit.behaviour.work import LONG, drain, until


async def test_the_same_task_with_the_same_arguments_is_stored_once(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see", unique=True)
    async def see(n: int) -> int:
        seen.append(n)
        return n

    first, second, other = await see.enqueue(1), await see.enqueue(1), await see.enqueue(2)
    assert second.id == first.id
    assert (first.duplicate, second.duplicate, other.duplicate) == (False, True, False)
    await drain(app)
    assert sorted(seen) == [1, 2]
    assert await second.result() == 1


async def test_arguments_spelled_otherwise_are_the_same(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(a: int, b: dict[str, int]) -> None: ...

    first = await see.enqueue(1, {"x": 1, "y": 2})
    assert (await see.enqueue(b={"y": 2, "x": 1}, a=1)).id == first.id


async def test_other_tasks_with_the_same_arguments_are_others(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> None: ...

    @app.task(name="hear", unique=True)
    async def hear(n: int) -> None: ...

    await see.enqueue(1)
    assert not (await hear.enqueue(1)).duplicate


async def test_a_key_given_for_a_call_implies_it(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> None: ...

    @app.task(name="hear")
    async def hear(n: int) -> None: ...

    first = await see.with_(unique_key="customer-7").enqueue(1)
    assert (await see.with_(unique_key="customer-7").enqueue(2)).id == first.id
    assert (await hear.with_(unique_key="customer-7").enqueue(3)).id == first.id
    assert not (await see.enqueue(1)).duplicate


async def test_keys_are_held_within_a_queue(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> None: ...

    await see.enqueue(1)
    assert not (await see.with_(queue="other").enqueue(1)).duplicate


async def test_it_can_be_switched_off_for_a_call(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> None: ...

    await see.enqueue(1)
    assert not (await see.with_(unique=False).enqueue(1)).duplicate
    assert not (await see.with_(unique=False, unique_key="a").enqueue(1)).duplicate


async def test_it_can_be_switched_on_for_a_call(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> None: ...

    first = await see.with_(unique=True).enqueue(1)
    assert (await see.with_(unique=True).enqueue(1)).id == first.id


async def test_of_many_in_one_batch_the_first_is_stored(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see(n: int) -> int:
        return n

    jobs = await app.enqueue_many([see.call(n % 3) for n in range(9)])
    assert [job.duplicate for job in jobs] == [False] * 3 + [True] * 6
    assert [job.id for job in jobs] == [job.id for job in jobs[:3]] * 3


async def test_apps_that_share_a_store_share_the_keys() -> None:
    url = f"memory://{new_id()}"
    async with App(url) as one, App(url) as other:

        async def see(n: int) -> int:
            return n

        mine = one.task(name="see", unique=True)(see)
        theirs = other.task(name="see", unique=True)(see)
        first = await mine.enqueue(1)
        second = await theirs.enqueue(1)
        assert (second.id, second.duplicate) == (first.id, True)
        await drain(other)
        assert await first.result() == 1


# --- until finished ------------------------------------------------------------------------------------


async def test_by_default_the_key_is_held_until_the_job_has_finished(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", unique=True)
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    first = await see.enqueue()
    async with app.worker():
        await inside.wait()
        assert (await see.enqueue()).id == first.id
        gate.set()
        await first.result(timeout=10)
        assert not (await see.enqueue()).duplicate


async def test_a_retrying_job_holds_its_key_and_a_dead_one_does_not(app: App, clock: MovableClock) -> None:
    @app.task(name="fail", unique=True, retry=RetryPolicy.fixed(1, 60))
    async def fail() -> int:
        raise ValueError("no")

    first = await fail.enqueue()
    async with app.worker(lease=LONG):
        await until(first, JobStatus.RETRYING)
    assert (await fail.enqueue()).duplicate
    clock.advance(60)
    await drain(app)
    assert await first.status() is JobStatus.DEAD
    assert not (await fail.enqueue()).duplicate


async def test_a_cancelled_job_releases_its_key(app: App) -> None:
    @app.task(name="see", unique=True)
    async def see() -> int:
        return 1

    first = await see.enqueue()
    assert await first.cancel()
    assert not (await see.enqueue()).duplicate


async def test_a_replayed_letter_takes_its_key_again_or_reports_the_duplicate(app: App) -> None:
    fails = True

    @app.task(name="fail", unique=True, retry=RetryPolicy.none())
    async def fail() -> int:
        if fails:
            raise ValueError("no")
        return 1

    dead = await fail.enqueue()
    await drain(app)
    newer = await fail.enqueue()
    replayed = await app.admin.replay(ids=[dead.id])
    assert (replayed, replayed.duplicates) == (0, (dead.id,))
    await newer.cancel()
    assert await app.admin.replay(ids=[dead.id]) == 1
    assert (await fail.enqueue()).id == dead.id
    fails = False
    await drain(app)
    assert await dead.result() == 1


# --- until started -------------------------------------------------------------------------------------


async def test_until_started_another_may_wait_while_one_runs(app: App) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    @app.task(name="see", unique=True, unique_until="started")
    async def see() -> int:
        inside.set()
        await gate.wait()
        return 1

    first = await see.enqueue()
    assert (await see.enqueue()).id == first.id
    async with app.worker(concurrency=1):
        await inside.wait()
        second = await see.enqueue()
        assert not second.duplicate
        assert (await see.enqueue()).id == second.id
        gate.set()
        assert await second.result(timeout=10) == 1


# --- for a time ----------------------------------------------------------------------------------------


async def test_for_a_time_the_key_outlives_the_job(app: App, clock: MovableClock) -> None:
    @app.task(name="see", unique=True, unique_until=60)
    async def see() -> int:
        return 1

    first = await see.enqueue()
    await drain(app)
    again = await see.enqueue()
    assert (again.id, again.duplicate) == (first.id, True)
    assert await again.result() == 1
    clock.advance(61)
    assert not (await see.enqueue()).duplicate


async def test_the_window_may_be_given_for_a_call(app: App, clock: MovableClock) -> None:
    @app.task(name="see", unique=True)
    async def see() -> int:
        return 1

    call = see.with_(unique_until=timedelta(minutes=1))
    await call.enqueue()
    await drain(app)
    assert (await call.enqueue()).duplicate
    clock.advance(61)
    assert not (await call.enqueue()).duplicate


# --- expired ---------------------------------------------------------------------------------------------


async def test_an_expired_job_gives_its_key_to_the_next(app: App, clock: MovableClock) -> None:
    seen: list[int] = []

    @app.task(name="see", unique=True, expires=60)
    async def see() -> int:
        seen.append(1)
        return 1

    first = await see.enqueue()
    clock.advance(61)
    assert await first.status() is (await first.info()).status is JobStatus.EXPIRED
    second = await see.enqueue()
    assert not second.duplicate
    with pytest.raises(JobExpired):
        await first.result(timeout=10)
    await drain(app)
    assert seen == [1]
    assert await second.result() == 1
    assert await first.status() is JobStatus.EXPIRED
