"""One public call, cancelled by its caller at each of its waits in turn. After each cancellation the app is
used once more and closed. It must leave nothing behind. `CALLS` has the calls by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from tests.torture.crash_points.cancellation import Cancellation
from tests.torture.crash_points.leaks import closed, left_behind, open_files
from tests.torture.crash_points.script import (
    LEASE,
    app,
    broken,
    cancelled,
    messages,
    note_end,
    note_groups,
    note_replay,
    orders,
    plan,
    program,
    published,
    sent,
    sent_many,
    survived,
    wide,
    work,
    work_in_parts,
)
from tests.torture.fleet import wait_until

T = TypeVar("T")

#: Awaits a call, and cancels it when it waits for the n-th time.
Within = Callable[[Awaitable[Any]], Awaitable[Any]]

#: Waits of one call. One that waits more often does the same again.
MOST: Final = 40


async def act(name: str) -> None:
    note_groups()
    files = open_files()
    for late in (False, True):
        for number in range(1, MOST):
            cancellation = Cancellation(number, late=late)
            await _once(name, cancellation, f"{name} {number}{' late' * late}")
            for what in left_behind(files):
                program.recorder.write("left", value=f"{what}, after {name} {number}{' late' * late}")
            if not cancellation.hit:
                break


async def _once(name: str, cancellation: Cancellation, title: str) -> None:
    """A worker that is stopped hands back what it runs, so this is a gentle fault."""
    recorder = program.recorder
    recorder.write("fault_begun", value=title, run=title, targets=(recorder.process,), gentle=True)
    await CALLS[name](cancellation.within)
    async with asyncio.timeout(20):
        await sent(plan(), work)
    await closed(app)
    recorder.write("fault_ended", value=title, run=title)


async def enqueue_first(within: Within) -> None:
    """The store is not open yet."""
    await within(sent(plan(), work))


async def enqueue(within: Within) -> None:
    await sent(plan(), work)
    await within(sent(plan(), work))


async def enqueue_in_crowd(within: Within) -> None:
    """Others wait in the same line."""
    await sent(plan(), work)
    others = [asyncio.create_task(sent(plan(), work)) for _ in range(3)]
    await within(sent(plan(), work))
    await asyncio.gather(*others)


async def enqueue_in_parts(within: Within) -> None:
    await within(sent(plan(), work_in_parts))


async def enqueue_many(within: Within) -> None:
    await within(sent_many(plan(), work, 30))
    await within(sent_many(plan(), work_in_parts, 5))


async def publish(within: Within) -> None:
    await within(published(orders, key="calls"))
    await within(published(wide, key="calls"))


async def publish_many(within: Within) -> None:
    await within(published(orders, 5))
    await within(published(wide, 5))


async def result(within: Within) -> None:
    async with app.worker(lease=LEASE, grace=0.2, topics=[]):
        for task in (work, work_in_parts):
            job = await sent(plan(), task)
            if job is not None:
                await within(survived(program.read_result(messages[job.id], job)))


async def job(within: Within) -> None:
    """All that a handle can do, on a job that waits."""
    waiting = await sent(plan(), work)
    assert waiting is not None
    note_end(waiting.id)
    for call in (waiting.status, waiting.info, app.job(waiting.id).info, waiting.cancel):
        await within(survived(call()))


async def worker(within: Within) -> None:
    """A worker from its start to its stop, with a job that is interrupted."""
    await sent_many(plan(), work, 5)
    await sent(plan(), work, 5.0)
    await published(orders, 3)
    await within(survived(_work()))


async def _work() -> None:
    async with app.worker(lease=LEASE, grace=0.1) as started:
        await wait_until(lambda: started.processed >= 3, timeout=30)


async def stop(within: Within) -> None:
    await sent(plan(), work, 5.0)
    async with app.worker(lease=LEASE, grace=0.1, topics=[]) as started:
        await wait_until(lambda: started.running, timeout=30)
        await within(survived(started.stop()))


async def burst(within: Within) -> None:
    await sent_many(plan(), work, 5)
    await within(survived(app.worker(lease=LEASE, grace=0.1, topics=[]).run(burst=True)))


async def enter_and_leave(within: Within) -> None:
    await within(survived(_enter()))


async def _enter() -> None:
    async with app:
        await sent(plan(), work)


async def close(within: Within) -> None:
    await sent(plan(), work)
    await within(survived(app.close()))


async def close_under_work(within: Within) -> None:
    sending = [asyncio.create_task(sent(plan(), work)) for _ in range(3)]
    await asyncio.sleep(0)
    await within(survived(app.close()))
    await asyncio.gather(*sending, return_exceptions=True)


async def dead_letters(within: Within) -> None:
    sent_here = await sent_many(plan(attempts=1, may_die=True), broken, 4)
    async with app.worker(lease=LEASE, grace=0.2, queues=["broken"], topics=[]):
        for each in sent_here:
            await each.wait(timeout=20)
    ids = [each.id for each in sent_here]
    note_end(ids[1])
    admin = app.admin
    for call in (
        lambda: admin.dead(queue="broken"),
        lambda: admin.retry_now(ids[0]),
        lambda: admin.discard(ids=[ids[1]]),
        lambda: admin.replay(queue="broken"),
    ):
        await within(survived(call()))


async def steering(within: Within) -> None:
    """Changes, then looks."""
    job = await sent(plan(), work, delay=0.5)
    assert job is not None
    note_end(*(each.id for each in await sent_many(plan(), work_in_parts, 3)))
    admin, schedules = app.admin, app.schedules
    for call in (
        lambda: admin.pause("wide"),
        lambda: admin.resume("wide"),
        lambda: admin.edit(job.id, args=[messages[job.id]]),
        lambda: admin.retry_now(job.id),
        lambda: admin.purge("wide"),
        lambda: schedules.pause("tick"),
        lambda: schedules.resume("tick"),
        lambda: schedules.list(),
        lambda: admin.queues(),
        lambda: admin.topics(),
        lambda: admin.doctor(),
    ):
        await within(survived(call()))
    await survived(cancelled(job))


async def split(within: Within) -> None:
    await sent(plan(), work_in_parts)
    [parts] = [queue.partitions for queue in await app.admin.queues() if queue.name == "wide"]
    await within(survived(app.admin.split("wide", 3 if parts == 2 else 2)))


async def groups(within: Within) -> None:
    await published(wide, 2)
    async with app.worker(lease=LEASE, grace=0.2, queues=["fed"]):
        pass
    for _ in range(3):
        note_replay("again")
    admin = app.admin
    looks: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: admin.pause_group("wide", "again"),
        lambda: admin.resume_group("wide", "again"),
        lambda: wide.replay(group="again", since="beginning"),
        lambda: admin.reset_group("wide", "again", to="beginning"),
        lambda: anext(app.admin.tail("wide", follow=False), None),
    )
    for call in looks:
        await within(survived(call()))


async def follow(within: Within) -> None:
    """A tail that waits for an event."""
    tail = app.admin.tail("orders")
    published_soon = asyncio.create_task(_publish_soon())
    await within(survived(anext(tail, None)))
    await tail.stop()
    await published_soon


async def _publish_soon() -> None:
    await asyncio.sleep(0.05)
    await published(orders)


CALLS: Final[dict[str, Callable[[Within], Awaitable[None]]]] = {
    each.__name__: each
    for each in (
        enqueue_first,
        enqueue,
        enqueue_in_crowd,
        enqueue_in_parts,
        enqueue_many,
        publish,
        publish_many,
        result,
        job,
        worker,
        stop,
        burst,
        enter_and_leave,
        close,
        close_under_work,
        dead_letters,
        steering,
        split,
        groups,
        follow,
    )
}
