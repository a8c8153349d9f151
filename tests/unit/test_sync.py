"""app.sync: the same verbs for plain code, carried to the loop that the app lives on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import (
    App,
    AppClosed,
    ConfigurationError,
    Duplicate,
    HeadraceError,
    Job,
    JobStatus,
    Published,
    Refused,
    RetryPolicy,
    Task,
)
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until_sync


class Shop:
    """An app with a few tasks."""

    def __init__(self) -> None:
        self.store = InterceptedStore()
        self.app = app = App(store=self.store)

        @app.task(name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        @app.task(name="fail", retry=RetryPolicy.none())
        async def fail() -> int:
            raise ValueError("no")

        @app.task(name="where")
        async def where() -> str:
            return threading.current_thread().name

        self.add, self.fail, self.where = add, fail, where
        self.orders = app.topic("orders", int)

        @self.orders.subscribe(group="billing", start="beginning", retry=RetryPolicy.none())
        async def bill(event: int) -> None:
            raise ValueError("no")

    def drain(self) -> None:
        """Run what is queued in an event loop of this thread."""
        asyncio.run(self.app.worker().run(burst=True))


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.app.sync.close()


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headrace loop"]


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


# --- without a loop ------------------------------------------------------------------------------------


def test_a_plain_program_enqueues_and_reads_results(shop: Shop) -> None:
    sync = shop.app.sync
    job = sync.enqueue(shop.add.call(2, 3))
    assert sync.status(job) is JobStatus.QUEUED
    assert sync.info(job).task == "add"
    shop.drain()
    assert sync.result(job, timeout=10) == 5
    assert sync.wait(job, timeout=10) is JobStatus.SUCCEEDED


def test_many_are_enqueued_at_once(shop: Shop) -> None:
    jobs = shop.app.sync.enqueue_many([shop.add.call(n, n) for n in range(1000)])
    assert len({job.id for job in jobs}) == 1000


def test_a_job_is_cancelled(shop: Shop) -> None:
    job = shop.app.sync.enqueue(shop.add.call(2, 3))
    assert shop.app.sync.cancel(job)
    assert not shop.app.sync.cancel(job)
    assert shop.app.sync.status(job) is JobStatus.CANCELLED


def test_errors_are_the_same_as_in_async_code(shop: Shop) -> None:
    with pytest.raises(HeadraceError, match="cannot be sent"):
        shop.app.sync.enqueue(shop.add.call(object(), 1))  # type: ignore[arg-type]
    job = shop.app.sync.enqueue(shop.fail.call())
    shop.drain()
    with pytest.raises(HeadraceError, match="ValueError: no"):
        shop.app.sync.result(job)
    with pytest.raises(TimeoutError):
        shop.app.sync.result(shop.app.sync.enqueue(shop.add.call(1, 1)), timeout=0)


def test_one_thread_serves_all_callers_and_ends_when_closed(shop: Shop) -> None:
    before = len(portals())
    threads = [threading.Thread(target=shop.app.sync.enqueue, args=(shop.add.call(n, n),)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(portals()) == before + 1
    (info,) = shop.app.sync.admin.queues()
    assert info.queued == 10
    shop.app.sync.close()
    assert len(portals()) == before


def test_closed_it_may_be_used_again(shop: Shop) -> None:
    for expected in (1, 2, 3):
        shop.app.sync.enqueue(shop.add.call(1, 1))
        (info,) = shop.app.sync.admin.queues()
        assert info.queued == expected
        shop.app.sync.close()


def test_closing_what_was_never_used_does_nothing(shop: Shop) -> None:
    before = len(portals())
    shop.app.sync.close()
    shop.app.sync.close()
    assert len(portals()) == before


def test_whoever_waits_when_it_is_closed_is_told(shop: Shop) -> None:
    job = shop.app.sync.enqueue(shop.add.call(1, 1))
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            shop.app.sync.result(job)
        except BaseException as error:
            errors.append(error)

    waits = shop.store.watch("wait_for_end")
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until_sync(lambda: waits.under_way)
    shop.app.sync.close()
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(errors[0], HeadraceError)


def test_a_call_that_the_portals_end_cuts_off_is_told_so(shop: Shop) -> None:
    inside = threading.Event()
    errors: list[BaseException] = []

    async def forever() -> None:
        inside.set()
        await asyncio.Event().wait()

    shop.store.intercept("workers", forever)

    def wait() -> None:
        try:
            shop.app.sync.admin.workers()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    inside.wait(10)
    shop.app.sync.close()
    thread.join(10)
    assert [type(error) for error in errors] == [AppClosed]


def test_the_admins_verbs_are_there_too(shop: Shop) -> None:
    sync, admin = shop.app.sync, shop.app.sync.admin
    job, dead = sync.enqueue(shop.add.with_(delay=3600).call(1, 1)), sync.enqueue(shop.fail.call())
    shop.drain()
    assert [info.id for info in admin.jobs(state="scheduled")] == [job.id]
    found = admin.job(job.id)
    assert found is not None
    assert found.status is JobStatus.SCHEDULED
    assert admin.workers() == []
    assert [letter.id for letter in admin.dead()] == [dead.id]
    assert admin.replay(ids=[dead.id]) == 1
    shop.drain()
    assert admin.discard(ids=[dead.id]) == 1
    assert admin.edit(job.id, args=[5, 5])
    assert admin.retry_now(job.id)
    admin.pause("default")
    assert admin.queues()[0].paused
    admin.resume("default")
    shop.drain()
    assert sync.result(job) == 10
    sync.enqueue(shop.add.call(1, 1))
    other = sync.enqueue(shop.add.call(2, 2))
    assert admin.cancel([other.id]) == 1
    assert admin.purge("default") == 1


# --- events --------------------------------------------------------------------------------------------


def test_a_plain_program_publishes_events(shop: Shop) -> None:
    sync = shop.app.sync
    first = sync.publish(shop.orders, 7, key="customer-3", headers={"source": "web"})
    assert sync.publish("orders", 8, idempotency_key="k") == sync.publish("orders", 8, idempotency_key="k")
    outcomes = sync.publish_many(shop.orders, [9, shop.orders.message(8, idempotency_key="k"), "x"])  # type: ignore[call-overload]
    assert [type(outcome) for outcome in outcomes] == [Published, Duplicate, Refused]
    events = [*sync.admin.tail("orders", since="beginning", follow=False)]
    assert [event.payload for event in events] == [7, 8, 9]
    assert (events[0].id, events[0].key, events[0].headers) == (first, "customer-3", {"source": "web"})


def test_a_topic_must_be_declared_to_be_published_to_by_name(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="has declared no topic 'order'"):
        shop.app.sync.publish("order", 1)
    with pytest.raises(HeadraceError, match="Expected `int`"):
        shop.app.sync.publish("orders", "x")


def test_the_admins_verbs_for_topics_are_there_too(shop: Shop) -> None:
    sync, admin = shop.app.sync, shop.app.sync.admin
    sync.publish(shop.orders, 13)
    shop.drain()
    [topic] = admin.topics()
    assert [(group.group, group.dead) for group in topic.groups] == [("billing", 1)]
    [letter] = admin.dead(topic="orders", group="billing")
    contents = admin.contents(letter.id)
    assert contents is not None
    assert contents.event is not None
    assert contents.event.payload == 13
    assert [info.id for info in admin.jobs(topic="orders", group="billing", state="dead")] == [letter.id]
    assert admin.replay(topic="orders") == 1
    admin.pause_group("orders", "billing")
    assert admin.topics()[0].groups[0].paused
    admin.resume_group("orders", "billing")
    assert admin.cancel([letter.id], topic="orders") == 1
    admin.reset_group("orders", "billing", to="beginning")
    assert admin.topics()[0].groups[0].lag == 1
    assert admin.remove_group("orders", "billing")


def test_a_tail_is_left_with_the_loop_over_it(shop: Shop) -> None:
    reads = shop.store.watch("read")
    for number in (1, 2):
        shop.app.sync.publish(shop.orders, number)
    for event in shop.app.sync.admin.tail("orders", since="beginning"):
        assert event.payload == 1
        break
    wait_until_sync(lambda: not reads.under_way)


# --- beside a loop -------------------------------------------------------------------------------------


async def test_from_a_thread_beside_a_loop_it_needs_nothing_of_that_loop(shop: Shop) -> None:
    before = len(portals())
    async with shop.app, shop.app.worker():
        job: Job[int] = await in_thread(shop.app.sync.enqueue, shop.add.call(2, 3))
        assert await in_thread(shop.app.sync.result, job, 10) == 5
        assert await job.result(timeout=10) == 5
    assert len(portals()) == before


async def test_a_plain_functions_job_uses_it_on_its_own_worker(shop: Shop) -> None:
    @shop.app.task(name="parent")
    def parent(n: int) -> int:
        child = shop.app.sync.enqueue(shop.add.call(n, n))
        return shop.app.sync.result(child, timeout=10)

    async with shop.app, shop.app.worker():
        assert await (await parent.enqueue(21)).result(timeout=10) == 42


async def test_on_the_apps_own_loop_it_is_refused_with_the_reason(shop: Shop) -> None:
    async with shop.app:
        with pytest.raises(ConfigurationError, match="await the method of the app instead"):
            shop.app.sync.enqueue(shop.add.call(1, 1))
        with pytest.raises(ConfigurationError, match="would block this loop"):
            shop.app.sync.close()


async def test_a_refused_call_leaves_no_coroutine_behind(shop: Shop) -> None:
    async with shop.app:
        job = await shop.add.enqueue(1, 1)
        with pytest.raises(ConfigurationError):
            shop.app.sync.status(job)


def test_async_and_sync_use_may_alternate(shop: Shop) -> None:
    shop.app.sync.enqueue(shop.add.call(1, 1))

    async def enqueue() -> Job[int]:
        return await shop.add.enqueue(2, 2)

    job = asyncio.run(enqueue())
    shop.app.sync.enqueue(shop.add.call(3, 3))
    shop.drain()
    assert shop.app.sync.result(job, timeout=10) == 4
    assert shop.app.sync.admin.queues()[0].queued == 0


def test_a_worker_takes_the_app_from_the_portal_and_gives_it_back(shop: Shop) -> None:
    job = shop.app.sync.enqueue(shop.where.call())
    shop.drain()
    assert shop.app.sync.result(job, timeout=10) == threading.main_thread().name
    shop.app.sync.enqueue(shop.where.call())


async def test_from_another_loop_in_another_thread_it_is_carried_home(shop: Shop) -> None:
    async def elsewhere() -> int:
        job = await shop.add.enqueue(2, 3)
        return await job.result(timeout=10)

    async with shop.app, shop.app.worker():
        assert await in_thread(asyncio.run, elsewhere()) == 5


async def test_a_second_worker_may_run_on_another_loop(shop: Shop) -> None:
    async def elsewhere() -> str:
        async with shop.app.worker(queues=["other"]):
            return await (await shop.where.with_(queue="other").enqueue()).result(timeout=10)

    async with shop.app.worker():
        assert await in_thread(asyncio.run, elsewhere()) != threading.main_thread().name
        assert await (await shop.where.enqueue()).result(timeout=10) == threading.main_thread().name
    await shop.app.close()


def test_closing_the_app_from_async_code_leaves_the_portal_usable(shop: Shop) -> None:
    shop.app.sync.enqueue(shop.add.call(1, 1))
    asyncio.run(shop.app.close())
    shop.app.sync.enqueue(shop.add.call(1, 1))
    assert shop.app.sync.admin.queues()[0].queued == 2


# --- the app's life ------------------------------------------------------------------------------------


async def test_an_app_is_opened_by_its_first_use_and_closed_by_leaving(shop: Shop) -> None:
    opened, closed = shop.store.watch("open"), shop.store.watch("close")
    await shop.add.enqueue(1, 1)
    assert (len(opened.made), len(closed.made)) == (1, 0)
    await shop.app.close()
    assert (len(opened.made), len(closed.made)) == (1, 1)


async def test_an_app_may_be_opened_again_and_again(shop: Shop) -> None:
    for expected in (1, 2, 3):
        async with shop.app as app:
            assert app is shop.app
            await shop.add.enqueue(1, 1)
            (info,) = await app.admin.queues()
            assert info.queued == expected


async def test_many_first_uses_at_once_are_no_trouble(shop: Shop) -> None:
    jobs = await asyncio.gather(*(shop.add.enqueue(n, n) for n in range(10)))
    assert len(jobs) == 10
    await shop.app.close()


async def test_using_an_app_while_it_closes_is_refused(shop: Shop) -> None:
    closing, gate = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        closing.set()
        await gate.wait()

    shop.store.intercept("close", slowly)
    await shop.add.enqueue(1, 1)
    task = asyncio.create_task(shop.app.close())
    await closing.wait()
    with pytest.raises(AppClosed):
        await shop.add.enqueue(2, 2)
    gate.set()
    await task
    await shop.add.enqueue(3, 3)


async def test_closing_waits_for_what_is_being_enqueued(shop: Shop) -> None:
    await shop.app.open()
    enqueueing = asyncio.create_task(shop.add.enqueue(1, 1))
    await asyncio.sleep(0)
    await shop.app.close()
    await enqueueing
    (info,) = await shop.app.admin.queues()
    assert info.queued == 1
    await shop.app.close()


def test_each_asyncio_run_may_use_the_app(shop: Shop) -> None:
    async def enqueue(task: Task[..., Any]) -> None:
        await task.enqueue(1, 1)

    for _ in range(3):
        asyncio.run(enqueue(shop.add))
    shop.drain()
    assert shop.app.sync.admin.queues()[0].queued == 0
