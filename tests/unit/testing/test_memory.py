"""An app on a test's store: everything happens there, and afterwards all is as it was."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import App, Call, ConfigurationError, JobStatus, Run, signals
from headrace.engine.declared.registry import CallNext
from headrace.testing import Clock, memory


@pytest.fixture
def real(tmp_path: Path) -> App:
    """An app on a durable store, as a user's module has it."""
    app = App(f"sqlite:///{tmp_path}/real.db")

    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    return app


def call(app: App, n: int = 1) -> Call[Any]:
    return app.tasks["double"].call(n)


async def test_jobs_are_stored_and_run_in_memory_and_the_real_store_is_not_even_made(
    real: App, tmp_path: Path
) -> None:
    with memory(real) as kit:
        job = await real.enqueue(call(real, 21))
        await kit.drain()
        assert await job.result() == 42
        assert real.description == "memory (test)"
    assert list(tmp_path.iterdir()) == []
    assert "real.db" in real.description


async def test_partitions_are_declared_and_split_and_jobs_run_as_ever(real: App) -> None:
    real.queue("mails", partitions=4)
    topic = real.topic("orders", int, partitions=4)
    seen: list[int] = []

    @topic.subscribe(group="billing", ordered=True)
    async def bill(order: int) -> None:
        seen.append(order)

    with memory(real) as kit:
        jobs = [await real.enqueue(call(real, n).with_(queue="mails")) for n in range(10)]
        await real.admin.split("mails", 8)
        for n in range(10):
            await topic.publish(n, key="customer")
        await kit.drain()
        assert await real.results(jobs) == [2 * n for n in range(10)]
        assert seen == list(range(10))
        kit.assert_enqueued(real.tasks["double"], queue="mails", count=10)
        kit.assert_published(topic, count=10)


async def test_afterwards_the_app_uses_its_own_store_again(real: App) -> None:
    before = await real.enqueue(call(real))
    await real.close()
    with memory(real) as kit:
        assert await before.status() is JobStatus.UNKNOWN
        await real.enqueue(call(real))
        assert len(kit.enqueued()) == 1
    assert await before.status() is JobStatus.QUEUED
    [queue] = await real.admin.queues()
    assert queue.queued == 1
    await real.close()


async def test_a_test_that_fails_gives_the_app_back_too(real: App) -> None:
    async def a_test() -> None:
        with memory(real):
            await real.enqueue(call(real))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await a_test()
    assert "real.db" in real.description
    with memory(real) as kit:
        assert kit.enqueued() == []


async def test_each_time_the_store_is_new(app: App) -> None:
    @app.task(name="work", unique=True)
    async def work() -> None: ...

    for _ in range(2):
        with memory(app) as kit:
            assert not (await work.enqueue()).duplicate
            assert len(kit.enqueued()) == 1


async def test_what_is_still_on_its_way_at_the_end_does_not_reach_the_real_store(
    real: App, tmp_path: Path
) -> None:
    with memory(real) as kit:
        await real.open()
        enqueuing = asyncio.create_task(real.enqueue_many([call(real), call(real)]))
        await asyncio.sleep(0)
        assert kit.enqueued() == []
    await enqueuing
    assert len(kit.enqueued()) == 2
    assert list(tmp_path.iterdir()) == []


async def test_an_app_that_is_open_is_refused(real: App) -> None:
    async with real:
        with pytest.raises(ConfigurationError, match="or close it first"), memory(real):
            pass
    with memory(real):
        pass


def test_an_app_that_a_finished_loop_left_open_is_taken(app: App) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    job = asyncio.run(double.enqueue(1))
    with memory(app) as kit:
        app.sync.enqueue(double.call(2))
        assert len(kit.enqueued()) == 1
    assert app.sync.status(job) is JobStatus.QUEUED
    app.sync.close()


def test_one_app_stands_on_one_store(app: App) -> None:
    with memory(app), pytest.raises(ConfigurationError, match="use the kit that"), memory(app):
        pass
    with memory(app):
        pass


def test_the_thread_of_app_sync_ends_with_the_test(real: App) -> None:
    before = set(threading.enumerate())
    with memory(real) as kit:
        job = real.sync.enqueue(call(real, 4))
        kit.sync.drain()
        assert real.sync.result(job) == 8
        assert set(threading.enumerate()) - before
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("moved", [False, True])
async def test_so_it_does_when_the_test_itself_is_async(real: App, moved: bool) -> None:
    with memory(real) as kit:
        await asyncio.to_thread(real.sync.enqueue, call(real))
        if moved:
            async with real.worker():
                pass
        assert len(kit.enqueued()) == 1
    assert "headrace portal" not in {thread.name for thread in threading.enumerate()}


async def test_middleware_and_listeners_of_the_app_take_part(real: App) -> None:
    seen: list[object] = []

    @real.use
    async def watch(run: Run, call_next: CallNext) -> object:
        seen.append(run.task)
        return await call_next(run)

    real.on(signals.JobSucceeded)(seen.append)
    with memory(real) as kit:
        await real.enqueue(call(real))
        await kit.drain()
    assert seen[0] == "double"
    assert isinstance(seen[1], signals.JobSucceeded)
    assert real._registry._middleware == [watch]


async def test_an_app_may_close_and_open_again_meanwhile(real: App) -> None:
    with memory(real) as kit:
        async with real:
            job = await real.enqueue(call(real, 2))
        async with real:
            await kit.drain()
            assert await job.result() == 4


async def test_two_apps_may_share_a_clock() -> None:
    clock = Clock()
    one, other = App("memory://"), App("memory://")

    @one.task(name="work")
    async def work() -> None: ...

    @other.task(name="work")
    async def work_too() -> None: ...

    with memory(one, clock=clock) as first, memory(other, clock=clock) as second:
        await work.with_(delay=60).enqueue()
        await work_too.with_(delay=60).enqueue()
        clock.advance(60)
        await first.drain()
        await second.drain()
        assert [job.status for job in first.enqueued() + second.enqueued()] == ["succeeded"] * 2


def test_a_kit_says_whose_it_is(app: App) -> None:
    with memory(app) as kit:
        assert repr(kit) == "<Kit of <App on memory (test)>>"


async def test_a_job_of_a_transaction_is_enqueued_at_once_and_no_outbox_is_read(tmp_path: Path) -> None:
    app = App("redis://nowhere.invalid", outbox=f"sqlite:///{tmp_path}/missing.db")
    orders = app.topic("orders", int)

    @app.task(name="charge")
    async def charge(order: int) -> None: ...

    with closing(sqlite3.connect(":memory:")) as connection, memory(app) as kit:
        connection.execute("BEGIN")
        app.sync.enqueue(charge.call(7), transaction=connection)
        app.sync.publish(orders, 7, transaction=connection)
        connection.commit()
        kit.assert_enqueued(charge, args=(7,))
        kit.assert_published(orders, 7)
        await kit.drain()
    assert app.has_outboxes
