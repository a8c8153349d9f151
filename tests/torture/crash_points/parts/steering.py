"""Looking and steering while jobs wait: pauses, dead letters, replays, edits, purges, splits, schedules.
First without a worker, then with one."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from headrace import ConfigurationError, DeadLetter, Page
from tests.torture.crash_points.script import (
    LEASE,
    app,
    broken,
    broken_in_parts,
    mend,
    messages,
    note_end,
    note_groups,
    note_replay,
    orders,
    plan,
    program,
    published,
    purged,
    sent,
    sent_many,
    survived,
    wide,
    work,
)
from tests.torture.fleet import wait_until


async def act() -> None:
    note_groups()
    await published(orders)
    await published(wide)
    await _dead_letters()
    await _waiting_jobs()
    await _schedules()
    await _topics()
    await _looks()


async def _dead_letters() -> None:
    """Some are replayed by name, some are discarded, and then all."""
    admin, dies = app.admin, plan(attempts=1, may_die=True)
    queues = {"broken": broken, "broken-wide": broken_in_parts}
    stored = 0
    for task in queues.values():
        stored += len(await sent_many(dies, task, 4))
        for key in ("one", "two", "three"):
            stored += await sent(dies, task, unique_key=key) is not None
    async with app.worker(lease=LEASE, grace=0.2, queues=list(queues), topics=[]):
        await survived(wait_until(lambda: _are_dead(stored), timeout=20))
        letters = [await survived(admin.dead(queue=queue, limit=4)) or Page(()) for queue in queues]
        await _look_at(letters[0].items[:1])
        mend()
        for page, queue in zip(letters, queues, strict=True):
            ids = [letter.id for letter in page]
            note_end(*ids[2:3])
            await each_of(
                admin.replay(ids=ids[::3] or ["none"], queue=queue),
                admin.retry_now(ids[1] if ids[1:] else "none", queue=queue),
                admin.discard(ids=ids[2:3] or ["none"], queue=queue),
                admin.replay(queue=queue),
            )


async def _look_at(letters: Sequence[DeadLetter]) -> None:
    for letter in letters:
        await each_of(app.admin.job(letter.id), app.admin.contents(letter.id), app.job(letter.id).info())


async def _are_dead(number: int) -> bool:
    queues = await survived(app.admin.queues()) or Page(())
    return sum(queue.dead for queue in queues if queue.name.startswith("broken")) >= number


async def _waiting_jobs() -> None:
    admin = app.admin
    await each_of(admin.pause("default"), admin.pause("wide"))
    held = await sent(plan(), work, delay=4.0)  # it does not keep its delay
    other = await sent(plan(delay=4.0), work, delay=4.0)
    await sent(plan(unique="default/held"), work, unique_key="held")
    if held is not None and other is not None:
        await survived(admin.edit(held.id, args=[messages[held.id]]))
        await survived(admin.retry_now(held.id))
        for job in (held, other):
            note_end(job.id)
            if await survived(admin.cancel([job.id])):
                program.recorder.write("cancelled", job=job.id)
    await each_of(
        admin.holder("held", queue="default"),
        admin.split("default", 2),
        sent(plan(unique="default/held"), work, unique_key="held"),
        admin.split("default", 1),
        admin.jobs("default"),
        admin.resume("default"),
        admin.resume("wide"),
    )
    note_end(*(job.id for job in await sent_many(plan(), purged, 5)))
    await each_of(admin.purge("purged"))


async def _schedules() -> None:
    schedules = app.schedules
    program.invoke("extra", plan())
    await each_of(
        schedules.add("extra", work.call("extra"), every=3600),
        schedules.put("extra", work.call("extra"), every=1800),
        schedules.pause("extra"),
        schedules.resume("extra"),
        schedules.run_now("extra"),
        schedules.list(),
        schedules.remove("extra"),
        schedules.pause("tick"),
        schedules.resume("tick"),
    )


async def _topics() -> None:
    admin = app.admin
    async with app.worker(lease=LEASE, grace=0.2, queues=["fed"]):
        await published(orders, 3)
        await published(wide, 3)
        await each_of(
            admin.pause_group("orders", "batch"),
            admin.resume_group("orders", "batch"),
            admin.pause_group("wide", "again"),
            admin.resume_group("wide", "again"),
        )
    for group in ("again", "again", "batch", "manual"):
        note_replay(group)
    await each_of(
        admin.reset_group("wide", "again", to="beginning"),
        admin.reset_group("orders", "batch", to="beginning"),
        admin.remove_group("wide", "again"),
        admin.remove_group("orders", "manual"),
    )


async def _looks() -> None:
    admin = app.admin
    await each_of(
        admin.queues(),
        admin.topics(),
        admin.workers(),
        admin.traffic(),
        admin.doctor(),
        admin.jobs("wide"),
        admin.dead(),
        admin.job("unknown"),
        admin.discard(queue="empty"),
    )


async def each_of(*calls: Awaitable[Any]) -> None:
    """Await these one after the other."""
    for call in calls:
        with suppress(ConfigurationError):  # an earlier call was cancelled, so that something is not there
            await survived(call)
