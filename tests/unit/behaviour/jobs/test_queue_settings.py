"""The settings of a queue: how many jobs wait in it and run, and how they are retried."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace import (
    App,
    Call,
    ConfigurationError,
    JobStatus,
    Limit,
    QueueFull,
    RetryPolicy,
    Worker,
    current_job,
)
from headrace.core.runtime.clock import SECOND
from headrace.engine.intake import queue_reader
from headrace.store import Stream
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain


async def test_a_queue_has_a_limit_of_its_own(app: App) -> None:
    app.queue("mails", queue_limit=2)

    @app.task(queue="mails")
    async def send(number: int) -> None: ...

    with pytest.raises(QueueFull, match="queue 'mails' holds its limit of 2 jobs") as full:
        await app.enqueue_many([send.call(number) for number in range(5)])
    assert len(full.value.accepted) == 2
    with pytest.raises(QueueFull):
        await send.enqueue(5)
    await send.with_(queue="reports").enqueue(6)


async def test_a_retry_policy_of_a_queue(app: App) -> None:
    app.queue("mails", retry=RetryPolicy.fixed(2, 0))
    runs: list[str] = []

    @app.task(queue="mails")
    async def send(name: str) -> None:
        runs.append(name)
        raise ValueError(name)

    @app.task(queue="mails", retry=RetryPolicy.fixed(1, 0))
    async def send_twice(name: str) -> None:
        runs.append(name)
        raise ValueError(name)

    @app.task(retry=RetryPolicy.none())
    async def other(name: str) -> None:
        runs.append(name)
        raise ValueError(name)

    await send.enqueue("queue")
    await send_twice.enqueue("task")
    await send.with_(retry=RetryPolicy.none()).enqueue("call")
    await other.with_(queue="mails").enqueue("other")
    await drain(app)
    assert {name: runs.count(name) for name in runs} == {"queue": 3, "task": 2, "call": 1, "other": 1}


async def test_a_job_sent_to_another_queue(app: App) -> None:
    app.queue("mails", retry=RetryPolicy.none())

    @app.task
    async def send() -> None:
        raise ValueError

    job = await send.with_(queue="mails").enqueue()
    await app.worker(queues=["mails"]).run(burst=True)
    assert await job.status() is JobStatus.DEAD
    assert (await job.info()).attempts == 1


async def test_a_queue_is_declared_once(app: App) -> None:
    queue = app.queue("mails", queue_limit=10)
    assert app.queue("mails", queue_limit=10) == queue
    with pytest.raises(ConfigurationError, match=r"'mails' is declared twice.*queue_limit: 10, 20"):
        app.queue("mails", queue_limit=20)


async def test_a_worker_that_runs_would_not_see_the_settings(app: App) -> None:
    async with app.worker():
        app.queue("reports", queue_limit=3)
        with pytest.raises(ConfigurationError, match="declared while a worker of this app runs"):
            app.queue("mails", slots=3)
        with pytest.raises(ConfigurationError, match="declared while a worker of this app runs"):
            app.queue("mails", limits=[Limit(max_running=1)])


async def test_a_second_import_declares_the_same(app: App) -> None:
    def declare() -> None:
        app.queue("mails", retry=lambda failures, error: None)

    declare()
    declare()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue_limit": 0}, "queue_limit must be a whole number from 1"),
        ({"retry": 3}, "retry must be a RetryPolicy"),
        ({"crash_limit": 0}, "crash_limit must be a whole number from 1"),
        ({"dead_limit": -1}, "dead_limit must be a whole number from 0"),
        ({"dead_retention": -1}, "dead_retention must be seconds"),
        ({"dead_retention": 0}, "dead_retention must be more than 0"),
        ({"on_dead": print}, "on_dead must be a task of this app or its name"),
        ({"slots": 0}, "slots must be a whole number from 1"),
        ({"slot": 3}, "has no option 'slot'; it has crash_limit"),
    ],
)
async def test_wrong_settings_are_refused(app: App, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        app.queue("mails", **options)  # type: ignore[arg-type]


async def test_a_queue_has_a_crash_limit_of_its_own(app: App, store: InterceptedStore) -> None:
    app.queue("mails", crash_limit=1)
    app.queue("reports", crash_limit=4)

    @app.task
    async def send() -> None: ...

    queues = ["default", "mails", "reports"]
    jobs = [await send.with_(queue=queue).enqueue() for queue in queues]
    for _ in range(4):
        await lose_all(app, store, queues)
    assert [(await job.info()).attempts for job in jobs] == [3, 1, 4]
    assert {await job.status() for job in jobs} == {JobStatus.DEAD}


async def lose_all(app: App, store: InterceptedStore, queues: list[str]) -> None:
    """Claim what is queued, as a worker that then dies, and have other workers recover it."""
    streams = [Stream("queue", queue) for queue in queues]
    await app.admin.queues()
    for stream in streams:
        await store.declare_stream(stream, SECOND)
    await store.claim(streams, consumer="gone", limit=100, suspects=100, wait=0)
    store.clock.advance(2)
    for stream in streams:
        await app.admin.pause(stream.name)
    async with app.worker(queues=queues, lease=1):
        await wait_until(lambda: not any(store._store.stream_state(each).running for each in streams))
    for stream in streams:
        await app.admin.resume(stream.name)


class RunCounter:
    """Counts the runs of each queue, now and at most."""

    def __init__(self, app: App) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.doors: dict[str, asyncio.Event] = {}

        @app.task(name="join")
        async def join(turns: int = 0) -> None:
            await self.join(turns)

        self.task = join

    async def join(self, turns: int) -> None:
        queue = current_job().queue
        self.now[queue] += 1
        self.runs[queue] += 1
        self.most[queue] = max(self.most[queue], self.now[queue])
        if queue in self.doors:
            await self.doors[queue].wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        self.now[queue] -= 1

    def calls(self, queue: str, count: int, turns: int = 0) -> list[Call[None]]:
        return [self.task.with_(queue=queue).call(turns) for _ in range(count)]


async def test_a_queue_uses_its_slots_and_no_more(app: App, store: InterceptedStore) -> None:
    app.queue("mails", slots=2)
    counter = RunCounter(app)
    counter.doors = {"mails": asyncio.Event(), "reports": asyncio.Event()}
    await app.enqueue_many(counter.calls("mails", 10) + counter.calls("reports", 20))
    async with app.worker(queues=["mails", "reports"], concurrency=10) as worker:
        await wait_until(lambda: counter.now == {"mails": 2, "reports": 8})
        assert {queue.name: queue.running for queue in await app.admin.queues()} == counter.now
        counter.doors["reports"].set()
        await wait_until(lambda: counter.runs["reports"] == 20)
        counter.doors["mails"].set()
        await wait_until(lambda: counter.runs["mails"] == 10)
    assert counter.most["mails"] == 2
    assert released(worker) == 0


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_slots_hold_for_jobs_of_any_length(app: App, turns: int) -> None:
    app.queue("mails", slots=3)
    app.queue("calls", slots=1)
    counter = RunCounter(app)
    queues = ["mails", "calls", "reports"]
    await app.enqueue_many([call for queue in queues for call in counter.calls(queue, 200, turns)])
    worker = app.worker(queues=queues, concurrency=20)
    await worker.run(burst=True)
    assert counter.runs == {"mails": 200, "calls": 200, "reports": 200}
    assert counter.most["mails"] <= 3
    assert counter.most["calls"] == 1
    assert released(worker) == 0


async def test_a_worker_with_used_slots_is_woken_when_one_is_free(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader, "BLOCK", 3600.0)
    monkeypatch.setattr(queue_reader, "BLOCK_SHARE", 3600.0)  # nothing else ends a claim in time
    counter = RunCounter(app)
    counter.doors["mails"] = asyncio.Event()
    await app.enqueue_many(counter.calls("mails", 3))
    async with app.worker(queues={"mails": 1, "reports": None}):
        await wait_until(lambda: counter.now["mails"] == 1)
        await app.enqueue_many(counter.calls("reports", 3))
        await wait_until(lambda: counter.runs["reports"] == 3)
        claims = store.watch("claim")
        assert counter.runs["mails"] == 1
        counter.doors["mails"].set()
        await wait_until(lambda: counter.runs["mails"] == 3)
        assert len(claims.made) < 10


async def test_the_worker_says_otherwise_than_the_declaration(app: App) -> None:
    app.queue("mails", slots=2)
    counter = RunCounter(app)
    await app.enqueue_many(counter.calls("mails", 30, 3))
    await app.worker(queues={"mails": 5}).run(burst=True)
    assert counter.most["mails"] == 5


async def test_slots_of_a_queue_in_parts(app: App) -> None:
    app.queue("mails", slots=2, partitions=3)
    counter = RunCounter(app)
    await app.enqueue_many(counter.calls("mails", 30, 3))
    await app.worker(queues=["mails"]).run(burst=True)
    assert (counter.most["mails"], counter.runs["mails"]) == (2, 30)


def released(worker: Worker) -> int:
    """How many claims the worker has handed back."""
    return worker._parts.settling.settler.released
