"""A store that cannot be reached for a while: callers that look, wait or steer get their answer afterwards,
and counts are right."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace import App, AppClosed, BackendUnavailable, ConfigurationError, JobStatus, signals
from headrace.engine.app_loop import retrying, store_wait
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import of

Verb = Callable[..., Coroutine[Any, Any, Any]]


class Outage:
    """Verbs of the app's store fail so many times: before they are carried out, or after: `late`."""

    def __init__(self, store: InterceptedStore) -> None:
        self._store = store
        self.asked = 0

    def of(self, name: str, times: int = 2, *, late: bool = False, transient: bool = True) -> None:
        verb: Verb = getattr(self._store, name)
        left = times

        async def failing(*args: Any, **options: Any) -> Any:
            nonlocal left
            self.asked += 1
            left -= 1
            if left >= 0:
                if late:
                    await verb(*args, **options)
                raise BackendUnavailable("away", uncertain=late, transient=transient)
            return await verb(*args, **options)

        self._store.intercept(name, failing)


@pytest.fixture
def outage(store: InterceptedStore) -> Outage:
    return Outage(store)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a timeout gives up soon."""
    monkeypatch.setattr(retrying, "RETRY_TIME", 0.3)


async def add(app: App, count: int = 1) -> list[str]:
    @app.task(name="see", result_ttl=60)
    async def see() -> int:
        return 1

    return [job.id for job in await app.enqueue_many([see.with_(delay=60).call() for _ in range(count)])]


async def test_a_store_that_is_not_there_yet_is_waited_for(app: App, outage: Outage) -> None:
    outage.of("open")
    assert await app.admin.queues() == []


@pytest.mark.parametrize("verb", ["get", "wait_for_end"])
async def test_whoever_looks_or_waits_asks_again(app: App, outage: Outage, verb: str) -> None:
    [id] = await add(app)
    outage.of(verb)
    job = app.job(id, queue="default")
    if verb == "get":
        assert await job.status() is JobStatus.SCHEDULED
        return
    waiting = asyncio.create_task(job.wait(timeout=30))
    await wait_until(lambda: outage.asked == 3)
    await app.admin.cancel([id])
    assert await waiting is JobStatus.CANCELLED


async def test_without_a_time_it_is_told_after_a_while(app: App, outage: Outage, short: None) -> None:
    [id] = await add(app)
    outage.of("get", times=1_000_000)
    with pytest.raises(BackendUnavailable, match="away"):
        await app.job(id, queue="default").status()
    assert outage.asked > 1


async def test_a_verb_that_hangs_is_given_up_in_time(
    app: App, store: InterceptedStore, outage: Outage, short: None
) -> None:
    async def hang(*args: object, **options: object) -> None:
        await asyncio.Event().wait()

    store.intercept("pause", hang)
    outage.of("pause", times=1)
    with pytest.raises(BackendUnavailable, match="away") as caught:
        await app.admin.pause("default")
    assert caught.value.uncertain


async def test_what_does_not_pass_by_itself_is_told_at_once(app: App, outage: Outage) -> None:
    [id] = await add(app)
    outage.of("get", transient=False)
    with pytest.raises(BackendUnavailable, match="away"):
        await app.job(id, queue="default").status()
    assert outage.asked == 1


async def test_a_cancellation_whose_answer_was_lost_is_told_as_one(app: App, outage: Outage) -> None:
    ids = await add(app, 2)
    outage.of("cancel", times=1, late=True)
    assert await app.job(ids[0], queue="default").cancel()
    outage.of("cancel", times=1, late=True)
    assert await app.admin.cancel(ids) == 1


async def test_a_purge_goes_on_after_a_lost_answer_and_says_that_it_may_be_more(
    app: App, outage: Outage
) -> None:
    await add(app, 500)
    outage.of("purge", times=1, late=True)
    purged = await app.admin.purge("default")
    assert 0 < purged <= 500
    assert purged.uncertain
    assert (await app.admin.queues())[0].scheduled == 0


async def test_a_purge_that_was_refused_for_a_while_counts_all(app: App, outage: Outage) -> None:
    await add(app, 500)
    outage.of("purge", times=2)
    purged = await app.admin.purge("default")
    assert (purged, purged.uncertain) == (500, False)


async def test_a_retry_whose_answer_was_lost_is_told_as_one(app: App, outage: Outage) -> None:
    [id] = await add(app)
    outage.of("run_now", times=1, late=True)
    assert await app.admin.retry_now(id)
    assert await app.job(id).status() is JobStatus.QUEUED


async def test_a_schedule_is_added_though_the_answer_was_lost(app: App, outage: Outage) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    outage.of("swap_schedules", times=1, late=True)
    await app.schedules.add("often", see.call(), every=60)
    assert [info.name for info in await app.schedules.list()] == ["often"]


async def test_a_schedule_is_removed_though_the_answer_was_lost(app: App, outage: Outage) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    await app.schedules.add("often", see.call(), every=60)
    outage.of("swap_schedules", times=1, late=True)
    await app.schedules.remove("often")
    assert await app.schedules.list() == []


async def test_an_app_that_is_closed_is_not_opened_again_for_whoever_waits(app: App, outage: Outage) -> None:
    [id] = await add(app)
    outage.of("get", times=1_000_000)
    looking = asyncio.create_task(app.job(id, queue="default").status())
    await wait_until(lambda: outage.asked)
    await app.close()
    with pytest.raises(AppClosed):
        await looking


# --- a worker that starts before its store ---------------------------------------------------------------


async def test_a_worker_waits_for_its_store_and_says_so(
    app: App, outage: Outage, heard: list[signals.Signal]
) -> None:
    outage.of("open", times=3)
    async with app.worker():
        [said, *_] = of(signals.BackendError, heard)
        assert (said.service, said.error) == ("start", "away")
        assert of(signals.WorkerStarted, heard)


async def test_a_worker_that_waits_in_vain_says_for_how_long(
    app: App, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_wait, "START_TIME", 0.2)
    outage.of("open", times=1_000_000)
    with pytest.raises(BackendUnavailable, match=r"away; the worker has waited for its store for 0\.2 s"):
        await app.worker().run()


async def test_a_worker_that_waits_for_its_store_heeds_a_signal(
    app: App, outage: Outage, heard: list[signals.Signal]
) -> None:
    outage.of("open", times=1_000_000)
    running = asyncio.create_task(app.worker().run())
    await wait_until(lambda: of(signals.BackendError, heard))
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(30):
        await running
    assert not of(signals.WorkerStarted, heard)


async def test_a_worker_that_its_store_refuses_says_so_and_for_how_long_it_waited(
    app: App, outage: Outage, heard: list[signals.Signal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_wait, "START_TIME", 0.2)
    outage.of("declare_stream", times=1_000_000)
    with pytest.raises(BackendUnavailable, match=r"away; the worker has waited for its store for 0\.2 s"):
        await app.worker().run()
    [said, *_] = of(signals.BackendError, heard)
    assert (said.service, said.error) == ("start", "away")


async def test_a_worker_that_its_store_refuses_heeds_a_signal(
    app: App, outage: Outage, heard: list[signals.Signal]
) -> None:
    outage.of("declare_stream", times=1_000_000)
    running = asyncio.create_task(app.worker().run())
    await wait_until(lambda: outage.asked)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(30):
        await running
    assert not of(signals.WorkerStarted, heard)


async def test_a_worker_does_not_wait_where_that_is_of_no_use(app: App, store: InterceptedStore) -> None:
    async def refuse() -> None:
        raise ConfigurationError("wrong password")

    store.intercept("open", refuse)
    with pytest.raises(ConfigurationError, match="wrong password"):
        await app.worker().run()


async def test_whoever_is_the_last_to_wait_for_the_store_ends_its_opening(
    app: App, store: InterceptedStore
) -> None:
    """So that leaving need not wait for a server that does not answer."""
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    store.intercept("open", hang)
    opening = [asyncio.create_task(app.open()) for _ in range(2)]
    await asyncio.sleep(0)  # both have begun
    opening[0].cancel()
    await asyncio.gather(opening[0], return_exceptions=True)
    assert not ended.is_set()
    opening[1].cancel()
    await ended.wait()
    store.restore("open")
    await app.open()
