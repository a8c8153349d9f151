"""drain() and run_inline() with limits, ordered jobs and paused tasks: nothing waits in real time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from headrace import App, JobStatus, Limit, RetryPolicy
from headrace.testing import Kit, run_inline

#: Nearly: a job reads the clock a moment after its token was spent.
HOUR = timedelta(hours=1, seconds=-1)


async def test_the_clock_is_moved_to_the_tokens_of_a_rate(app: App, kit: Kit) -> None:
    started: list[datetime] = []

    @app.task(name="ask", rate_limit="1/h")
    async def ask() -> None:
        started.append(kit.clock.now())

    await app.enqueue_many([ask.call() for _ in range(5)])
    await kit.drain(timeout=10)
    assert len(started) == 5
    for earlier, later in pairwise(started):
        assert later - earlier > HOUR


async def test_a_limit_holds_in_a_drain(app: App, kit: Kit) -> None:
    running: list[int] = []
    most: list[int] = []

    @app.task(name="charge", limits=[Limit("customer", max_running=1, by="customer")])
    async def charge(customer: int, number: int) -> None:
        running.append(customer)
        most.append(running.count(customer))
        await asyncio.sleep(0)
        running.remove(customer)

    await app.enqueue_many([charge.call(n % 3, n) for n in range(30)])
    await kit.drain(timeout=10)
    assert (len(most), max(most)) == (30, 1)


async def test_jobs_behind_a_retry_of_their_key_run_after_it(app: App, kit: Kit) -> None:
    ran: list[int] = []

    @app.task(name="book", ordered_by="account", retry=RetryPolicy.fixed(2, delay=3600))
    async def book(account: str, number: int) -> None:
        ran.append(number)
        if ran == [0]:
            raise ValueError("not yet")

    await app.enqueue_many([book.call("ann", number) for number in range(3)])
    await kit.drain(retries=False, timeout=10)
    assert ran == [0]
    await kit.drain(timeout=10)
    assert ran == [0, 0, 1, 2]


async def test_a_retry_waits_for_its_rate_too(app: App, kit: Kit) -> None:
    started: list[datetime] = []

    @app.task(name="ask", rate_limit="1/h", retry=RetryPolicy.fixed(2, delay=1))
    async def ask() -> None:
        started.append(kit.clock.now())
        raise ValueError("not now")

    await ask.enqueue()
    await kit.drain(timeout=10)
    assert len(started) == 3
    assert started[2] - started[0] > 2 * HOUR


async def test_a_paused_task_is_left_and_others_run(app: App, kit: Kit) -> None:
    ran: list[str] = []

    @app.task(name="mail")
    async def mail() -> None:
        ran.append("mail")

    @app.task(name="charge")
    async def charge() -> None:
        ran.append("charge")

    job = await mail.enqueue()
    await charge.enqueue()
    await app.admin.pause(task="mail")
    await kit.drain(timeout=10)
    assert ran == ["charge"]
    assert await job.status() is JobStatus.QUEUED
    await app.admin.resume(task="mail")
    await kit.drain(timeout=10)
    assert ran == ["charge", "mail"]


async def test_the_rate_of_a_queue_that_is_not_drained_moves_no_clock(app: App, kit: Kit) -> None:
    @app.task(name="ask", queue="slow", rate_limit="1/h")
    async def ask() -> None: ...

    @app.task(name="charge")
    async def charge() -> None: ...

    await app.enqueue_many([ask.call(), ask.call()])
    await kit.drain(queues=["slow"], timeout=10)
    await app.enqueue_many([ask.call(), ask.call(), charge.call()])
    before = kit.clock.now()
    await kit.drain(queues=["default"], timeout=10)
    assert kit.clock.now() - before < timedelta(minutes=1)


async def test_inline_jobs_do_not_wait_for_a_rate(app: App) -> None:
    @app.task(name="ask", rate_limit="1/m")
    async def ask(number: int) -> int:
        return number

    with run_inline(app):
        async with asyncio.timeout(10):
            jobs = [await ask.enqueue(number) for number in range(3)]
        assert [await job.result() for job in jobs] == [0, 1, 2]


async def test_inline_a_job_that_waits_for_the_limit_of_its_caller_runs_after_it(app: App) -> None:
    @app.task(name="count_down", max_running=1)
    async def count_down(number: int) -> str:
        return "" if not number else (await count_down.enqueue(number - 1)).id

    with run_inline(app) as kit:
        async with asyncio.timeout(10):
            job = await count_down.enqueue(1)
            inner = app.job(await job.result())
        await kit.drain(timeout=10)
        assert await inner.status() is JobStatus.SUCCEEDED


async def test_inline_jobs_at_the_same_time_wait_for_each_other(app: App) -> None:
    @app.task(name="charge", max_running=1)
    async def charge(number: int) -> int:
        await asyncio.sleep(0)
        return number

    with run_inline(app):
        async with asyncio.timeout(10):
            jobs = await asyncio.gather(*(charge.enqueue(number) for number in range(5)))
        assert [await job.result() for job in jobs] == [0, 1, 2, 3, 4]


async def test_a_drain_that_does_not_end_counts_the_jobs_that_wait_for_a_limit(app: App, kit: Kit) -> None:
    go_on = asyncio.Event()

    @app.task(name="charge", max_running=1)
    async def charge() -> None:
        await go_on.wait()

    await app.enqueue_many([charge.call(), charge.call()])
    with pytest.raises(TimeoutError, match="1 are queued, running are: charge"):
        await kit.drain(timeout=0.1)
    go_on.set()
