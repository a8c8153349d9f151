"""Moving time: delayed jobs become due, and running jobs are not harmed."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from headrace import App, ConfigurationError, JobStatus, RetryPolicy
from headrace.core.messages.message import Stream
from headrace.testing import Clock, Kit
from tests.support.waiting import wait_until


def test_the_clock_goes_on_by_itself_and_further_when_it_is_moved() -> None:
    clock = Clock()
    start = clock.now()
    assert abs(start - datetime.now(UTC)) < timedelta(seconds=10)
    clock.advance(60)
    clock.advance(timedelta(hours=1))
    assert timedelta(seconds=3660) <= clock.now() - start < timedelta(seconds=3670)
    clock.move_to(start + timedelta(days=1))
    assert timedelta(days=1) <= clock.now() - start < timedelta(days=1, seconds=10)


def test_it_cannot_be_moved_back() -> None:
    clock = Clock()
    with pytest.raises(ConfigurationError, match=r"from 0 to 1,000,000,000 seconds .*, not -1"):
        clock.advance(-1)
    with pytest.raises(ConfigurationError, match="cannot be moved back"):
        clock.move_to(datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigurationError, match="has no time zone"):
        clock.move_to(datetime(2100, 1, 1))


async def test_a_running_worker_starts_at_once_what_became_due(app: App, kit: Kit) -> None:
    ran: list[str] = []

    @app.task(name="work")
    async def work(what: str) -> None:
        ran.append(what)

    async with app.worker():
        job = await work.with_(delay=3600).enqueue("later")
        await (await work.enqueue("now")).wait(timeout=10)
        assert ran == ["now"]
        kit.clock.advance(3600)
        await job.wait(timeout=10)
    assert ran == ["now", "later"]


async def test_also_when_it_is_moved_from_another_thread(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> str:
        return "done"

    async with app.worker():
        job = await work.with_(delay=3600).enqueue()
        threading.Thread(target=kit.clock.advance, args=(3600,)).start()
        assert await job.result(timeout=10) == "done"


async def test_a_retry_of_a_running_worker_comes_when_it_is_due(app: App, kit: Kit) -> None:
    @app.task(name="work", retry=RetryPolicy.fixed(1, 3600))
    async def work() -> float:
        if kit.clock.offset_us == 0:
            raise ValueError("not yet")
        return kit.clock.offset_us / 1e6

    async with app.worker():
        job = await work.enqueue()

        async def retrying() -> bool:
            return await job.status() is JobStatus.RETRYING

        await wait_until(retrying)
        kit.clock.advance(3600)
        assert await job.result(timeout=10) == 3600


async def test_a_job_that_runs_does_not_lose_its_lease_when_time_is_moved(app: App, kit: Kit) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with app.worker(lease=15):
        job = await work.enqueue()
        await started.wait()
        kit.clock.advance(3600)
        reclaimed = await kit._store.reclaim([Stream("queue", "default")], limit=10)
        assert reclaimed.recovered == ()
        go_on.set()
        assert await job.result(timeout=10) == "done"
        assert (await job.info()).crashes == 0


async def test_expiry_and_unique_windows_pass_with_it(app: App, kit: Kit) -> None:
    @app.task(name="work", expires=60, unique=True, unique_until=600)
    async def work() -> None: ...

    job = await work.enqueue()
    kit.clock.advance(61)
    await kit.drain()
    assert await job.status() is JobStatus.EXPIRED
    await work.enqueue()  # what expired has given up its key
    await kit.drain()
    assert (await work.enqueue()).duplicate
    kit.clock.advance(601)
    assert not (await work.enqueue()).duplicate


async def test_jobs_are_stamped_with_its_time(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    kit.clock.advance(timedelta(days=365))
    await work.enqueue()
    [job] = kit.enqueued()
    assert job.enqueued_at is not None
    assert job.enqueued_at - datetime.now(UTC) > timedelta(days=364)


async def test_a_time_may_be_reckoned_from_it(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    kit.clock.advance(timedelta(days=365))
    at = kit.clock.now() + timedelta(hours=1)
    await work.with_(at=at).enqueue()
    kit.clock.move_to(at)
    await kit.drain()
    assert [job.status for job in kit.enqueued()] == [JobStatus.SUCCEEDED]
