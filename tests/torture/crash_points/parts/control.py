"""Limits, paused tasks, replaced jobs, history, and what removes jobs, keys and queues."""

from __future__ import annotations

from contextlib import suppress

from headrace import ConfigurationError, ResultTimeout
from tests.torture.crash_points.parts.steering import each_of
from tests.torture.crash_points.script import (
    LEASE,
    app,
    cleaned,
    kept,
    limited,
    note_end,
    ordered,
    plan,
    replaced,
    sent,
    sent_many,
    survived,
)
from tests.torture.program import RESULT_TIMEOUT


async def act() -> None:
    await _limits()
    await _ordered()
    await _replaced()
    await _cleaned()
    await _dead()


async def _limits() -> None:
    """A limit is changed before a worker has declared it, and again while jobs wait. A task is paused. Then
    the history is read."""
    admin = app.admin
    await each_of(admin.set_limit("narrow", max_running=2))
    jobs = await sent_many(plan(), limited, 5)
    async with app.worker(lease=LEASE, grace=0.2, queues=["limited"], topics=[]):
        await each_of(
            admin.limits(),
            admin.set_limit("narrow", max_running=3),
            admin.pause(task=limited.name),
            admin.resume(task=limited.name),
            admin.clear_limit("narrow"),
        )
        for job in jobs:
            await survived(job.wait(timeout=RESULT_TIMEOUT))
    await each_of(admin.jobs("limited", state="succeeded"))
    for job in jobs[:1]:
        await each_of(admin.job(job.id, queue="limited"), app.job(job.id, queue="limited").info())


async def _ordered() -> None:
    await sent_many(plan(), ordered, 2)
    await each_of(app.admin.split("ordered", 2))  # it is refused: jobs wait


async def _replaced() -> None:
    """A waiting job is replaced: in its queue, and in a part of it that takes no new jobs any more. The last
    message runs; those before it end without a run."""
    admin = app.admin
    await each_of(admin.pause("replaced"))
    for partitions in (2, 1):
        for _ in range(2):
            job = await sent(plan(unique="replaced/one"), replaced, unique_key="one")
            if job is not None:
                note_end(job.id)
        await each_of(admin.split("replaced", partitions))
    await each_of(admin.resume("replaced"))


async def _cleaned() -> None:
    admin = app.admin
    jobs = await sent_many(plan(), cleaned, 3)
    note_end(*(job.id for job in jobs))
    for job in jobs[:1]:
        with suppress(ResultTimeout):  # no worker serves the queue
            await survived(job.result(timeout=0.01))
    held = await sent(plan(unique="cleaned/held"), cleaned, unique_key="held")
    if held is not None:
        note_end(held.id)
    await each_of(
        admin.release_key("cleaned", "held"),
        admin.clean("cleaned", state="queued"),
        admin.clean("cleaned"),
        admin.clean("limited"),
    )
    note_end(*(job.id for job in await sent_many(plan(), cleaned, 3)))
    with suppress(ConfigurationError):  # it is in use
        await survived(admin.remove_queue("cleaned"))
    await each_of(
        app.schedules.add("daily", cleaned.call("daily"), every=86_400),
        admin.remove_queue("cleaned", force=True),
        admin.remove_queue("cleaned"),
    )


async def _dead() -> None:
    """The queue keeps one dead letter, and calls another task for each."""
    jobs = await sent_many(plan(attempts=1, may_die=True), kept, 4)
    note_end(*(job.id for job in jobs))
    async with app.worker(lease=LEASE, grace=0.2, queues=["kept", "mourned"], topics=[]):
        for job in jobs:
            await survived(job.wait(timeout=RESULT_TIMEOUT))
