"""`app.admin`: what the command line and the dashboard stand on."""

from __future__ import annotations

import asyncio

from headrace import (
    App,
    Call,
    DeadLetter,
    JobInfo,
    JobStatus,
    Page,
    QueueInfo,
    Replayed,
    RetryPolicy,
    ScheduleInfo,
    Task,
    Worker,
    WorkerInfo,
)
from tests.support.waiting import wait_until


async def test_queues_jobs_and_pages() -> None:
    app = App("memory://")

    @app.task(name="pack", queue="parcels")
    async def pack(order: int) -> None: ...

    await app.enqueue_many([pack.call(order) for order in range(5)])

    [queue] = await app.admin.queues()
    assert isinstance(queue, QueueInfo)
    assert (queue.name, queue.queued) == ("parcels", 5)

    page: Page[JobInfo] = await app.admin.jobs("parcels", state="queued", limit=3)
    assert len(page) == 3
    rest = await app.admin.jobs("parcels", state="queued", cursor=page.cursor)
    assert [info.status for info in (*page, *rest)] == [JobStatus.QUEUED] * 5

    await app.admin.pause("parcels")
    await app.worker().run(burst=True)  # takes nothing from a paused queue
    await app.admin.resume("parcels")
    assert await app.admin.purge("parcels") == 5


async def test_dead_letters_are_read_replayed_and_discarded() -> None:
    app = App("memory://", retry=RetryPolicy.none())
    mended = False

    @app.task(name="refund")
    async def refund(order: int) -> None:
        if not mended:
            raise LookupError(f"order {order} was never paid")

    job = await refund.enqueue(7)
    await app.worker().run(burst=True)

    [letter] = await app.admin.dead(task="refund")
    assert isinstance(letter, DeadLetter)
    assert (letter.id, letter.reason, letter.error) == (job.id, "exhausted", "order 7 was never paid")
    assert letter.payload == b"\x91\x91\x07"

    mended = True
    replayed = await app.admin.replay(ids=[letter.id])
    assert isinstance(replayed, Replayed)
    assert (replayed, replayed.duplicates) == (1, ())
    await app.worker().run(burst=True)
    assert await app.admin.discard(task="refund") == 0


async def test_workers_say_what_they_run() -> None:
    app = App("memory://")
    gate = asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        await gate.wait()

    worker: Worker = app.worker(concurrency=5)
    async with worker:
        job = await long.enqueue()
        await wait_until(lambda: worker.running == 1)

        async def announced() -> bool:
            return any(info.running for info in await app.admin.workers())

        await wait_until(announced)
        [info] = await app.admin.workers()
        assert isinstance(info, WorkerInfo)
        assert (info.consumer, info.concurrency, info.running[0].id) == (worker.id, 5, job.id)
        gate.set()


async def test_a_call_is_a_value_that_can_be_kept_and_scheduled() -> None:
    app = App("memory://")

    @app.task(name="report")
    async def report(month: int) -> str:
        return f"month {month}"

    assert isinstance(report, Task)
    call: Call[str] = report.call(11)
    await app.schedules.add("monthly", call, cron="0 6 1 * *", tz="Europe/Vienna")
    [schedule] = await app.schedules.list()
    assert isinstance(schedule, ScheduleInfo)
    job = await app.schedules.run_now("monthly")
    await app.worker().run(burst=True)
    assert await job.result(timeout=1) == "month 11"


async def test_a_codec_wraps_what_is_stored() -> None:
    class Backwards:
        """No protection at all; it only shows where compression or encryption would go."""

        def encode(self, payload: bytes, /) -> bytes:
            return payload[::-1]

        def decode(self, data: bytes, /) -> bytes:
            return data[::-1]

    app = App("memory://", codec=Backwards())

    @app.task(name="echo")
    async def echo(word: str) -> str:
        return word

    job = await echo.enqueue("hello")
    await app.worker().run(burst=True)
    assert await job.result(timeout=1) == "hello"
