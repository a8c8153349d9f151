"""The settings of a queue, on every store."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace import QueueFull, RetryPolicy, current_job, signals
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until


async def test_slots_hold_while_other_queues_use_the_rest(make_app: MakeApp) -> None:
    app = make_app()
    app.queue("mails", slots=2)
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    together = asyncio.Event()

    @app.task(name="join")
    async def join() -> None:
        queue = current_job().queue
        now[queue] += 1
        runs[queue] += 1
        most[queue] = max(most[queue], now[queue])
        if sum(now.values()) == 8:
            together.set()
        await together.wait()
        await asyncio.sleep(0)
        now[queue] -= 1

    queues = ["mails"] * 20 + ["reports"] * 20
    await app.enqueue_many([join.with_(queue=queue).call() for queue in queues])
    async with app.worker(queues=["mails", "reports"], concurrency=8):
        await wait_until(lambda: runs == {"mails": 20, "reports": 20})
    assert most["mails"] == 2
    assert most["reports"] >= 6


async def test_every_death_is_called_once(make_app: MakeApp) -> None:
    app = make_app()
    called: Counter[str] = Counter()

    @app.task(name="report", queue="reports")
    async def report(id: str, task: str, queue: str, reason: str, error: str) -> None:
        assert (task, queue, reason, error) == ("send", "mails", "exhausted", "no address")
        called[id] += 1

    app.queue("mails", on_dead=report, retry=RetryPolicy.fixed(1, 0))

    @app.task(name="send", queue="mails")
    async def send(number: int) -> None:
        if number % 2:
            raise ValueError("no address")

    jobs = await app.enqueue_many([send.call(number) for number in range(40)])
    await asyncio.gather(*(app.worker().run(burst=True) for _ in range(2)))
    await app.worker().run(burst=True)
    assert called == {job.id: 1 for job in jobs[1::2]}
    assert await app.admin.outboxes() == []


@pytest.mark.parametrize("partitions", [None, 2])
async def test_the_oldest_dead_letters_are_dropped(make_app: MakeApp, partitions: int | None) -> None:
    app = make_app()
    app.queue("mails", dead_limit=3, partitions=partitions)
    died: list[str] = []
    dropped: list[signals.DeadDropped] = []
    app.on(signals.JobDied)(lambda signal: died.append(signal.id))
    app.on(signals.DeadDropped)(dropped.append)

    @app.task(queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    for _ in range(8):
        await send.enqueue()
        await app.worker(concurrency=1).run(burst=True)
    assert {letter.id for letter in await app.admin.dead(queue="mails")} == set(died[-3:])
    assert sum(signal.count for signal in dropped) == 5


async def test_a_queue_has_a_limit_of_its_own(make_app: MakeApp) -> None:
    app = make_app()
    app.queue("mails", queue_limit=3)

    @app.task(name="send")
    async def send() -> None: ...

    with pytest.raises(QueueFull) as full:
        await app.enqueue_many([send.with_(queue="mails").call() for _ in range(5)])
    assert len(full.value.accepted) == 3
    await send.enqueue()
