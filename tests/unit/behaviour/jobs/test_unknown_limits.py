"""Jobs whose producer did not know all their limits, and paused tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from headrace import App, ConfigurationError, JobStatus, Limit, Task
from headrace.core.messages.message import Stream
from headrace.engine.upkeep import heartbeat
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until


@pytest.fixture
async def producer(store: InterceptedStore) -> AsyncIterator[App]:
    """Another process, with other code."""
    other = App(store=store.for_other_loop())
    yield other
    await other.close()


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY", 0.01)


class RunCounter:
    def __init__(self) -> None:
        self.now = self.most = self.count = 0

    async def join(self) -> None:
        self.now += 1
        self.count += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1


async def test_a_limit_holds_for_jobs_by_name(app: App, producer: App) -> None:
    counter = RunCounter()

    @app.task(name="send", max_running=2, limits=[Limit("customer", max_running=5, by="customer")])
    async def send(customer: int) -> None:
        await counter.join()

    remote = producer.remote("send")
    await producer.enqueue_many([remote.call(number) for number in range(30)])
    await app.worker(concurrency=20).run(burst=True)
    assert (counter.count, counter.most) == (30, 2)


async def test_keys_by_name_are_those_that_are_given(app: App, producer: App) -> None:
    together, counter = asyncio.Barrier(3), RunCounter()

    @app.task(name="send", limits=[Limit("customer", max_running=1, by="customer")])
    async def send(customer: str) -> None:
        await together.wait()  # one of each key, and one without
        await counter.join()

    remote = producer.remote("send")
    keyed = [remote.with_(limit_keys={"customer": each}).call(each) for each in "aaabbb"]
    await producer.enqueue_many(keyed + [remote.call("") for _ in range(3)])
    async with app.worker():
        await wait_until(lambda: counter.count == 9)
    assert counter.most == 3


@pytest.mark.parametrize("timed", [False, True])
async def test_a_limit_that_a_newer_deploy_adds_holds_for_older_jobs(
    app: App, producer: App, timed: bool
) -> None:
    counter = RunCounter()

    async def send() -> None:
        await counter.join()

    old = producer.task(name="send", limits=[Limit("stripe", max_running=9)])(send)
    await producer.enqueue_many([old.call() for _ in range(20)])
    app.task(
        name="send",
        limits=[Limit("stripe", max_running=9), Limit("bank", max_running=1)],
        timeout=60 if timed else None,  # then it runs in another way
    )(send)
    await app.worker(concurrency=20).run(burst=True)
    assert (counter.count, counter.most) == (20, 1)


async def test_a_job_with_more_limits_than_this_worker_knows_runs(app: App, producer: App) -> None:
    ran: list[int] = []

    async def send() -> None:
        ran.append(1)

    newer = producer.task(name="send", limits=[Limit("bank", max_running=1), Limit("new", max_running=1)])(
        send
    )
    app.task(name="send", limits=[Limit("bank", max_running=1)])(send)
    await newer.enqueue()
    await app.worker().run(burst=True)
    assert ran == [1]


async def test_a_limit_of_a_queue_holds_for_jobs_by_name(app: App, producer: App) -> None:
    counter = RunCounter()
    app.queue("mails", limits=[Limit(max_running=1)])

    @app.task(name="send")
    async def send() -> None:
        await counter.join()

    remote = producer.remote("send", queue="mails")
    await producer.enqueue_many([remote.call() for _ in range(10)])
    await app.worker(queues=["mails"]).run(burst=True)
    assert (counter.count, counter.most) == (10, 1)


async def test_a_handed_back_job_has_no_trace_of_it(app: App, store: InterceptedStore, producer: App) -> None:
    @app.task(name="send", max_running=1)
    async def send() -> None: ...

    await app.admin.pause(task="send")
    job = await producer.remote("send").enqueue()
    async with app.worker():
        await wait_until(lambda: _waits_for(app, job.id, "paused:send"))
    record = await store.get(Stream("queue", "default"), job.id)
    assert record is not None
    assert (record.state.attempt, record.state.trail) == (1, ())
    await app.admin.resume(task="send")


async def _waits_for(app: App, id: str, limit: str) -> bool:
    info = await app.admin.job(id)
    return info is not None and info.waiting_for == limit


@pytest.mark.usefixtures("quick_beats")
async def test_a_paused_task_starts_no_job_and_others_go_on(app: App) -> None:
    ran: list[str] = []
    gate, begun = asyncio.Event(), asyncio.Event()

    @app.task(name="send")
    async def send(name: str) -> None:
        if name == "running":
            begun.set()
            await gate.wait()
        ran.append(name)

    @app.task(name="other")
    async def other() -> None:
        ran.append("other")

    async with app.worker():
        await send.enqueue("running")
        await begun.wait()
        await app.admin.pause(task="send")
        await _until_paused(app, send)
        ran.clear()
        waiting = [await send.enqueue(f"{number}") for number in range(3)]
        await wait_until(lambda: _all_wait(app, [job.id for job in waiting]))
        await other.enqueue()
        gate.set()
        await wait_until(lambda: len(ran) == 2)
        assert set(ran) == {"other", "running"}
        shown = await app.admin.job(waiting[0].id)
        assert shown is not None
        assert shown.status is JobStatus.QUEUED
        ran.clear()
        await app.admin.resume(task="send")
        await wait_until(lambda: set(ran) >= {"0", "1", "2"})
        ran.clear()
        await send.enqueue("again")
        await wait_until(lambda: "again" in ran)
    assert [limit.name for limit in await app.admin.limits()] == []


async def _paused_or_ran(app: App, id: str) -> bool:
    info = await app.admin.job(id)
    return info is None or info.status is JobStatus.SUCCEEDED or info.waiting_for == "paused:send"


async def _until_paused(app: App, send: Task[[str], None]) -> None:
    """Enqueue jobs until one of them waits."""
    while True:
        probe = await send.enqueue("probe")
        await wait_until(partial(_paused_or_ran, app, probe.id))
        if await _waits_for(app, probe.id, "paused:send"):
            return


async def _all_wait(app: App, ids: list[str]) -> bool:
    return all([await _waits_for(app, id, "paused:send") for id in ids])


async def test_a_worker_that_starts_during_the_pause_keeps_it(app: App) -> None:
    ran: list[int] = []

    @app.task(name="send")
    async def send() -> None:
        ran.append(1)

    jobs = [await send.enqueue() for _ in range(20)]
    await app.admin.pause(task="send")
    async with app.worker():
        await wait_until(lambda: _all_wait(app, [job.id for job in jobs]))
        (limit,) = await app.admin.limits()
        assert (limit.name, limit.waiting) == ("paused:send", 20)
    assert ran == []
    await app.admin.resume(task="send")
    await app.worker().run(burst=True)
    assert len(ran) == 20


async def test_a_paused_batch_task_gets_no_list(app: App) -> None:
    lists: list[int] = []

    @app.task(name="index", batch=10, batch_wait=0.01)
    async def index(docs: list[int]) -> None:
        lists.append(len(docs))

    jobs = await app.enqueue_many([index.call(number) for number in range(10)])
    await app.admin.pause(task="index")
    async with app.worker():
        await wait_until(lambda: _all_paused(app, [job.id for job in jobs]))
    assert lists == []
    await app.admin.resume(task="index")
    await app.worker().run(burst=True)
    assert sum(lists) == 10


async def _all_paused(app: App, ids: list[str]) -> bool:
    return all([await _waits_for(app, id, "paused:index") for id in ids])


async def test_a_pause_needs_a_queue_or_a_task(app: App) -> None:
    with pytest.raises(ConfigurationError, match=r"task='shop\.send'"):
        await app.admin.pause()
    with pytest.raises(ConfigurationError, match=r"task='shop\.send'"):
        await app.admin.resume("mails", task="send")
