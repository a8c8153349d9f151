"""Batches: handlers of lists, single events apart, and a poisonous event that harms no other event."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace import (
    App,
    BatchResult,
    Event,
    RetryLater,
    RetryPolicy,
    Run,
    Snooze,
    Unrecoverable,
    current_job,
    signals,
)
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import State, group_stream
from headrace.core.runtime.clock import MovableClock
from headrace.engine.declared.registry import CallNext
from headrace.engine.running import slots as slots_module
from headrace.engine.running.batches.batches import HOPELESS
from headrace.engine.running.batches.bundle import bundled
from headrace.engine.worker import worker as worker_module
from tests.support.intercepted_store import InterceptedStore
from tests.support.movable_loop import idle
from tests.support.waiting import wait_until, wait_until_sync
from tests.unit.behaviour.events.orders import (
    OrderPlaced,
    counts,
    dead,
    numbers,
    orders_of,
    placed,
    smuggle,
)
from tests.unit.behaviour.work import LONG, drain, of

INDEX = group_stream("orders", "index")


async def test_a_list_at_a_time_in_order(app: App) -> None:
    orders = orders_of(app)
    lists: list[list[int]] = []

    @orders.subscribe(group="index", batch=10, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        lists.append(numbers(events))

    await placed(orders, *range(25))
    await drain(app)
    assert [number for each in lists for number in each] == list(range(25))
    assert max(map(len, lists)) == 10


async def test_lists_of_events_and_plain_functions(app: App) -> None:
    orders = orders_of(app)
    seen: list[object] = []

    @orders.subscribe(group="events", batch=10, start="beginning")
    def events(events: list[Event[OrderPlaced]]) -> None:
        seen.append([(event.topic, event.payload.order_id) for event in events])
        seen.append(current_job().topic)

    await placed(orders, 1, 2)
    await drain(app)
    assert seen == [[("orders", 1), ("orders", 2)], "orders"]


async def test_single_ones_are_settled_apart(app: App, heard: list[signals.Signal]) -> None:
    orders = orders_of(app)
    calls: list[list[int]] = []

    @orders.subscribe(group="index", batch=10, start="beginning", retry=RetryPolicy.fixed(1, 0))
    async def index(events: list[OrderPlaced]) -> BatchResult:
        calls.append(numbers(events))
        wrong: dict[int, Exception | str] = {2: ValueError("two"), 3: "three", 4: Unrecoverable("four")}
        return BatchResult(
            failed={at: wrong[each.order_id] for at, each in enumerate(events) if each.order_id in wrong}
        )

    await placed(orders, 1, 2, 3, 4, 5)
    await drain(app)
    assert calls == [[1, 2, 3, 4, 5], [2, 3]]
    letters = {each.error: each.reason for each in await dead(app, "index")}
    assert letters == {"two": "exhausted", "three": "exhausted", "four": "unrecoverable"}
    assert len(of(signals.EventHandled, heard)) == 2


@pytest.mark.parametrize("wrong", [1, 7, -1])
async def test_a_result_that_names_what_is_not_in_the_list_is_an_error(app: App, wrong: int) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="index", batch=10, start="beginning", retry=RetryPolicy.none())
    async def index(events: list[OrderPlaced]) -> BatchResult:
        return BatchResult(failed={wrong: "no such event"})

    await placed(orders, 1)
    await drain(app)
    [letter] = await dead(app, "index")
    assert f"names {wrong} of a list of 1" in letter.error


@pytest.mark.parametrize("attempts", [0, 2])
async def test_a_poisonous_event_is_found_and_the_others_live(app: App, attempts: int) -> None:
    orders = orders_of(app)
    handled: Counter[int] = Counter()
    calls = 0

    @orders.subscribe(group="index", batch=64, start="beginning", retry=RetryPolicy.fixed(attempts, 0))
    async def index(events: list[OrderPlaced]) -> None:
        nonlocal calls
        calls += 1
        if any(each.order_id == 13 for each in events):
            raise ValueError("thirteen")
        handled.update(numbers(events))

    await placed(orders, *range(64))
    await drain(app)
    [letter] = await dead(app, "index")
    assert (letter.error, letter.attempts) == ("thirteen", attempts + 1)
    assert handled == Counter({n: 1 for n in range(64) if n != 13})
    assert calls <= 2 * 7 + attempts


async def test_unrecoverable_kills_one_and_not_the_list(app: App) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="index", batch=8, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        if any(each.order_id == 3 for each in events):
            raise Unrecoverable("three")

    await placed(orders, *range(8))
    await drain(app)
    assert [each.reason for each in await dead(app, "index")] == ["unrecoverable"]


async def test_when_nothing_succeeds_all_are_tried_again_later(app: App) -> None:
    orders = orders_of(app)
    calls: list[int] = []
    away = True

    @orders.subscribe(group="index", batch=500, start="beginning", retry=RetryPolicy.fixed(1, 0))
    async def index(events: list[OrderPlaced]) -> None:
        nonlocal away
        calls.append(len(events))
        if away:
            away = len(calls) < 13
            raise ConnectionError("the database is away")

    await placed(orders, *range(500))
    await drain(app)
    assert not await dead(app, "index")
    first = calls[: calls.index(500, 1)]
    assert len(first) <= 2 * HOPELESS  # and not one for each event


async def test_in_the_last_attempt_nobody_dies_for_his_neighbours(app: App) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="index", batch=50, start="beginning", retry=RetryPolicy.none())
    async def index(events: list[OrderPlaced]) -> None:
        if len(events) > 1:
            raise ConnectionError("too many")

    await placed(orders, *range(50))
    await drain(app)
    assert not await dead(app, "index")


async def test_what_a_handler_asks_for_it_asks_for_the_list(app: App) -> None:
    orders = orders_of(app)
    calls: list[int] = []

    @orders.subscribe(group="index", batch=8, start="beginning", retry=RetryPolicy.fixed(1, 0))
    async def index(events: list[OrderPlaced]) -> None:
        calls.append(len(events))
        if len(calls) == 1:
            raise Snooze(0)
        if len(calls) == 2:
            raise RetryLater(0)
        if len(events) > 1:
            raise RetryLater(0)  # the retries are spent: the list is halved until each is alone

    await placed(orders, *range(8))
    await drain(app)
    assert calls[:3] == [8, 8, 8]
    assert calls.count(1) == 8
    assert not await dead(app, "index")


async def test_what_cannot_be_read_is_dead_and_the_rest_is_handled(app: App, store: InterceptedStore) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="index", batch=8, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        seen.extend(numbers(events))

    await placed(orders, 1)
    await smuggle(store, b"\xc1")
    await placed(orders, 2)
    await drain(app)
    assert seen == [1, 2]
    assert [each.reason for each in await dead(app, "index")] == ["undecodable"]


async def test_batches_are_full_while_there_is_a_backlog_and_bounded(app: App) -> None:
    orders = orders_of(app)
    lists: list[int] = []
    inside = most = 0

    @orders.subscribe(group="index", batch=10, max_in_flight=25, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        nonlocal inside, most
        inside += len(events)
        most = max(most, inside)
        lists.append(len(events))
        await asyncio.sleep(0)
        inside -= len(events)

    await placed(orders, *range(200))
    await drain(app)
    assert lists == [10] * 20
    assert most <= 25


async def test_a_batch_that_crashed_once_comes_back_as_a_batch(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    orders = orders_of(app)
    lists: list[int] = []

    @orders.subscribe(group="index", batch=200, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        lists.append(len(events))

    async with app.worker(lease=LONG):
        pass
    await placed(orders, *range(200))
    backend, source = store, group_stream("orders", "index")
    await backend.claim([source], consumer="a worker that dies", limit=200, suspects=0, wait=0)
    clock.advance(LONG + 1)
    await backend.reclaim([source], limit=200)
    await drain(app)
    assert lists == [200]


async def test_a_suspect_is_alone() -> None:
    def claim(id: str, crashes: int = 0) -> Claim:
        return Claim(None, id, b"", None, 0, State(crashes=crashes))  # type: ignore[arg-type]

    bundles = bundled([claim("a"), claim("b", crashes=2), claim("c"), claim("d")], 2)
    assert [[each.id for each in bundle.claims] for bundle in bundles] == [["b"], ["a", "c"], ["d"]]


async def test_shutdown_hands_a_running_list_back_without_an_attempt(app: App) -> None:
    orders = orders_of(app)
    attempts: list[int] = []
    gate = asyncio.Event()

    @orders.subscribe(group="index", batch=10, start="beginning", retry=RetryPolicy.none())
    async def index(events: list[OrderPlaced]) -> None:
        attempts.append(current_job().attempt)
        await gate.wait()

    await placed(orders, *range(5))
    async with app.worker(grace=0, lease=LONG) as worker:
        await wait_until(lambda: worker.running)
    assert (await counts(app, "index")).lag == 5
    gate.set()
    await drain(app)
    assert set(attempts) == {1}
    assert not await dead(app, "index")


async def test_a_list_that_will_not_end_is_handed_back_whole(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (slots_module, worker_module):
        monkeypatch.setattr(module, "CANCEL_WAIT", 0.01)
    orders = orders_of(app)
    gate, inside = asyncio.Event(), asyncio.Event()

    @orders.subscribe(group="index", batch=10, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        inside.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass

    await placed(orders, *range(5))
    async with app.worker(grace=0, lease=LONG):
        await inside.wait()
    assert (await counts(app, "index")).lag == 5
    gate.set()


async def test_an_error_at_shutdown_kills_nobody(app: App) -> None:
    orders = orders_of(app)
    inside, calls = asyncio.Event(), 0

    @orders.subscribe(group="index", batch=10, start="beginning", retry=RetryPolicy.none())
    async def index(events: list[OrderPlaced]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            inside.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("in the clean-up") from None

    await placed(orders, *range(5))
    async with app.worker(grace=0, lease=LONG):
        await inside.wait()
    assert (await counts(app, "index")).lag == 5
    await drain(app)
    assert not await dead(app, "index")


async def test_the_lost_lease_of_one_does_not_end_the_list_but_that_of_all_does(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    cancelled, seen = asyncio.Event(), list[int]()

    @orders.subscribe(group="index", batch=10, start="beginning")
    async def index(events: list[OrderPlaced]) -> None:
        seen.append(len(events))
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    ids = await placed(orders, *range(3))
    async with app.worker(lease=LONG, grace=0) as worker:
        await wait_until(lambda: seen == [3])
        store.lost.add(ids[1])
        store.change_lease(INDEX, LONG / 2)
        await wait_until(lambda: worker.renewals >= 3)
        store.change_lease(INDEX, LONG / 4)
        await wait_until(lambda: worker.renewals >= 5)  # so the answers of the first round were heeded
        await idle()
        assert not cancelled.is_set()
        store.lost.update(ids)
        store.change_lease(INDEX, LONG / 8)
        await cancelled.wait()
    assert len(of(signals.LeaseLost, heard)) == 1


async def test_leases_lost_in_a_thread_end_the_middleware_after_it(app: App, store: InterceptedStore) -> None:
    orders = orders_of(app)

    ended = asyncio.Event()

    @app.use
    async def hang(run: Run, call_next: CallNext) -> object:
        await call_next(run)
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    @orders.subscribe(group="index", batch=10, start="beginning")
    def index(events: list[OrderPlaced]) -> None:
        wait_until_sync(lambda: current_job().cancelled)

    store.lost.update(await placed(orders, *range(3)))
    async with app.worker(lease=LONG, grace=0) as worker:
        await wait_until(lambda: worker.running)
        store.change_lease(INDEX, LONG / 2)
        await wait_until(ended.is_set)


async def test_batches_on_receipt_and_in_a_fan_out(app: App) -> None:
    orders = orders_of(app)
    seen: dict[str, list[int]] = {"receipt": [], "fan-out": []}

    @orders.subscribe(group="receipt", batch=10, ack="receipt", start="beginning")
    async def receipt(events: list[OrderPlaced]) -> None:
        if any(each.order_id == 3 for each in events):
            raise ValueError("three")
        seen["receipt"] += numbers(events)

    @orders.subscribe(fan_out=True, batch=10, start="beginning", retry=RetryPolicy.fixed(1, 0))
    async def everywhere(events: list[OrderPlaced]) -> None:
        if any(each.order_id == 3 for each in events) and len(events) > 1:
            raise ValueError("three")
        seen["fan-out"] += numbers(events)

    await placed(orders, *range(10))
    await drain(app)
    assert sorted(seen["receipt"]) == [n for n in range(10) if n != 3]
    assert sorted(seen["fan-out"]) == list(range(10))
