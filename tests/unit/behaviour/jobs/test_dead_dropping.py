"""Queues that keep a number of their dead letters, or keep them for a time."""

from __future__ import annotations

import pytest

from headrace import App, Job, RetryPolicy, Task, signals
from headrace.engine.upkeep.dead_dropping import DROP_BATCH
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import drain, of


async def deaths(app: App, store: InterceptedStore, count: int) -> list[Job[None]]:
    """So many dead letters in the queue `mails`, one a minute."""
    send = failing(app)
    jobs: list[Job[None]] = []
    for _ in range(count):
        store.clock.advance(60)
        jobs.append(await send.enqueue())
        await drain(app)  # else several are written together, and died at the same time
    return jobs


def failing(app: App) -> Task[[], None]:
    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    return send


async def kept(app: App) -> list[str]:
    """The dead letters, the oldest first."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await app.admin.dead(queue="mails", cursor=cursor, limit=100)
        found += [letter.id for letter in page]
        if (cursor := page.cursor) is None:
            return found[::-1]


@pytest.mark.parametrize("partitions", [None, 3])
async def test_a_number_of_dead_letters_is_kept(
    app: App, store: InterceptedStore, heard: list[signals.Signal], partitions: int | None
) -> None:
    app.queue("mails", dead_limit=4, partitions=partitions)
    await deaths(app, store, 10)
    assert await kept(app) == [signal.id for signal in of(signals.JobDied, heard)][-4:]
    dropped = of(signals.DeadDropped, heard)  # one for each look
    assert {signal.queue for signal in dropped} == {"mails"}
    assert sum(signal.count for signal in dropped) == 6


async def test_the_oldest_are_dropped(app: App, store: InterceptedStore) -> None:
    jobs = await deaths(app, store, 10)
    app.queue("mails", dead_limit=4)
    await drain(app)
    assert await kept(app) == [job.id for job in jobs[6:]]


async def test_dead_letters_are_kept_for_a_time(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    app.queue("mails", dead_retention=6000)
    jobs = await deaths(app, store, 10)
    store.clock.advance(5730)
    await drain(app)
    assert await kept(app) == [job.id for job in jobs[5:]]
    store.clock.advance(6000)
    await drain(app)
    assert await kept(app) == []
    assert sum(signal.count for signal in of(signals.DeadDropped, heard)) == 10


async def test_many_are_dropped_in_steps(app: App, store: InterceptedStore) -> None:
    send = failing(app)
    await app.enqueue_many([send.call() for _ in range(2 * DROP_BATCH + 10)])
    await drain(app)
    app.queue("mails", dead_limit=0)
    discards = store.watch("discard")
    async with app.worker() as worker:
        assert worker.running == 0
    await drain(app)
    assert await kept(app) == []
    assert max(len(ids) for _, ids in discards.made) == DROP_BATCH


async def test_nothing_is_asked_where_all_are_kept(app: App, store: InterceptedStore) -> None:
    app.queue("mails", slots=3)
    asked = store.watch("oldest_dead")
    await deaths(app, store, 10)
    assert len(await kept(app)) == 10
    assert asked.made == []
