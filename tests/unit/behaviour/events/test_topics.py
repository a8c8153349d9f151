"""Patterns of topics, the order of keys, and how long events are kept."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from headrace import App, ConfigurationError, Event, RetryPolicy, signals
from headrace.core.runtime.clock import MovableClock
from headrace.engine.intake import subscriptions as subscriptions_module
from headrace.engine.upkeep import topic_keeping as topic_keeping_module
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, group_of, orders_of, placed
from tests.unit.behaviour.work import LONG, drain, of

DAY = 24 * 3600

# --- patterns --------------------------------------------------------------------------------------------


async def test_a_pattern_follows_every_topic_that_matches_and_says_which(app: App) -> None:
    seen: list[tuple[str, int]] = []

    @app.topics("orders.*", OrderPlaced).subscribe(group="audit", start="beginning")
    async def audit(event: Event[OrderPlaced]) -> None:
        seen.append((event.topic, event.payload.order_id))

    for number, name in enumerate(["orders.eu", "orders.us", "orders", "orders.eu.north", "bills.eu"]):
        await app.topic(name, OrderPlaced).publish(OrderPlaced(number))
    await drain(app)
    assert sorted(seen) == [("orders.eu", 0), ("orders.us", 1)]


async def test_a_topic_that_is_made_meanwhile_is_followed_from_its_beginning_within_two_seconds(
    app: App,
) -> None:
    seen: list[tuple[str, int]] = []
    everywhere: list[int] = []

    @app.topics("orders.*", OrderPlaced).subscribe(group="audit")
    async def audit(event: Event[OrderPlaced]) -> None:
        seen.append((event.topic, event.payload.order_id))

    @app.topics("*.eu", OrderPlaced).subscribe(fan_out=True)
    async def refresh(event: OrderPlaced) -> None:
        everywhere.append(event.order_id)

    await app.topic("orders.old", OrderPlaced).publish(OrderPlaced(0))  # before: start="new" leaves it out
    async with app.worker():
        await placed(app.topic("orders.eu", OrderPlaced), 1, 2)
        await wait_until(lambda: len(seen) == len(everywhere) == 2)
        await placed(app.topic("orders.eu", OrderPlaced), 3)
        await placed(app.topic("orders.old", OrderPlaced), 4)
        await wait_until(lambda: len(seen) == 4 and len(everywhere) == 3)
    assert sorted(seen) == [("orders.eu", 1), ("orders.eu", 2), ("orders.eu", 3), ("orders.old", 4)]


async def test_a_topic_that_was_made_while_no_worker_ran_is_followed_from_its_beginning_too(
    app: App,
) -> None:
    seen: list[int] = []

    @app.topics("orders.*", OrderPlaced).subscribe(group="audit")
    async def audit(event: OrderPlaced) -> None:
        seen.append(event.order_id)

    await placed(app.topic("orders.eu", OrderPlaced), 0)
    async with app.worker():
        pass
    await placed(app.topic("orders.us", OrderPlaced), 1)
    await drain(app)
    assert seen == [1]


async def test_when_the_store_fails_while_topics_are_looked_for_it_goes_on_later(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch, heard: list[signals.Signal]
) -> None:
    seen: list[int] = []
    failures = 2
    join = store.join

    @app.topics("orders.*", OrderPlaced).subscribe(group="audit")
    async def audit(event: OrderPlaced) -> None:
        seen.append(event.order_id)

    async def flaky(*args: object, **kwargs: object) -> bool:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise RuntimeError("broken")
        return await join(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(subscriptions_module, "DISCOVER_EVERY", 0.01)
    async with app.worker():
        store.intercept("join", flaky)
        await placed(app.topic("orders.eu", OrderPlaced), 1)
        await wait_until(lambda: seen == [1])
    assert {each.service for each in of(signals.BackendError, heard)} == {"topic discovery"}


async def test_two_handlers_of_one_group_are_refused_also_where_patterns_meet(app: App) -> None:
    orders = orders_of(app)

    async def handle(order: OrderPlaced) -> None: ...

    orders.subscribe(group="audit")(handle)
    app.topics("*.eu", OrderPlaced).subscribe(group="europe")(handle)
    for topic, group in [
        (orders, "audit"),
        (app.topics("*", OrderPlaced), "audit"),
        (app.topics("orders.*", OrderPlaced), "europe"),
        (app.topic("orders.eu", OrderPlaced), "europe"),
    ]:
        with pytest.raises(ConfigurationError, match="has a handler already"):
            topic.subscribe(group=group)(handle)
    app.topics("orders.*.eu", OrderPlaced).subscribe(group="europe")(handle)
    orders.subscribe(group="other")(handle)


# --- order -----------------------------------------------------------------------------------------------


async def test_events_of_a_key_are_handled_one_at_a_time_in_order_across_retries() -> None:
    seen: defaultdict[str, list[int]] = defaultdict(list)
    inside: set[str] = set()
    side_by_side = 0

    def member() -> App:
        app = App("memory://ordered-by-two")

        @orders_of(app).subscribe(group="stock", ordered=True, retry=RetryPolicy.fixed(3, 0.005))
        async def stock(event: Event[OrderPlaced]) -> None:
            nonlocal side_by_side
            assert event.key is not None
            assert event.key not in inside, "two of a key at once"
            inside.add(event.key)
            side_by_side = max(side_by_side, len(inside))
            await asyncio.sleep(0)
            inside.discard(event.key)
            number = event.payload.order_id
            if number % 7 == 0 and number not in failed:
                failed.add(number)
                raise ValueError("again")
            seen[event.key].append(number)

        return app

    failed: set[int] = set()
    a, b = member(), member()
    async with a, b, a.worker(concurrency=5), b.worker(concurrency=5):
        orders = orders_of(a)
        await orders.publish_many(
            [orders.message(OrderPlaced(n), key=f"customer-{n % 4}") for n in range(100)]
        )
        await wait_until(lambda: sum(map(len, seen.values())) == 100)
    assert all(each == sorted(each) for each in seen.values())
    assert side_by_side > 1


async def test_a_dead_letter_lets_the_next_of_its_key_go(app: App) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="stock", ordered=True, retry=RetryPolicy.none(), start="beginning")
    async def stock(order: OrderPlaced) -> None:
        if order.order_id == 1:
            raise ValueError("broken")
        seen.append(order.order_id)

    await placed(orders, 1, 2, 3, key="a")
    await drain(app)
    assert seen == [2, 3]


async def test_a_member_that_wants_no_order_ends_it_for_nobody_and_both_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_keeping_module, "KEEP_EVERY", 0.01)
    seen: list[int] = []
    heard: defaultdict[bool, list[signals.Signal]] = defaultdict(list)

    def member(*, ordered: bool) -> App:
        app = App("memory://disputed-order")
        app.on(signals.OrderDisputed)(heard[ordered].append)

        @orders_of(app).subscribe(group="stock", ordered=ordered)
        async def stock(order: OrderPlaced) -> None:
            for _ in range(order.order_id % 3):
                await asyncio.sleep(0)
            seen.append(order.order_id)

        return app

    a, b = member(ordered=True), member(ordered=False)
    async with a, b, a.worker():
        async with b.worker():
            await wait_until(lambda: heard[False])
        await placed(orders_of(a), *range(10), key="a")
        await wait_until(lambda: len(seen) == 10)
        await wait_until(lambda: heard[True])
    assert seen == [*range(10)]
    assert heard[True] == heard[False] == [signals.OrderDisputed("orders", "stock")]


async def test_a_replay_while_a_group_is_at_work_ends_with_the_newest_event_of_a_key(app: App) -> None:
    orders = orders_of(app)
    seen: list[int] = []
    at_work, may_end = asyncio.Event(), asyncio.Event()

    @orders.subscribe(group="stock", ordered=True, start="beginning")
    async def stock(order: OrderPlaced) -> None:
        seen.append(order.order_id)
        if order.order_id == 3:
            at_work.set()
            await may_end.wait()

    await placed(orders, 1, 2, 3, 4, 5, key="a")
    async with app.worker():
        await at_work.wait()
        await orders.replay(group="stock", since="beginning")
        may_end.set()
        await wait_until(lambda: seen[-1] == 5)
    assert seen == [1, 2, 3, 1, 2, 3, 4, 5]


# --- retention -------------------------------------------------------------------------------------------


async def test_a_group_that_lags_holds_its_topic_and_is_announced_once_and_passed_after_a_day(
    app: App,
    store: InterceptedStore,
    clock: MovableClock,
    heard: list[signals.Signal],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_keeping_module, "KEEP_EVERY", 0.01)
    orders = app.topic("orders", OrderPlaced, max_length=2)

    @orders.subscribe(group="slow", start="beginning")
    async def slow(order: OrderPlaced) -> None: ...

    @orders.subscribe(group="quick", start="beginning")
    async def quick(order: OrderPlaced) -> None: ...

    async with app.worker(lease=LONG):
        pass
    await placed(orders, *range(10))
    later = App(store=store.for_other_loop(), clock=clock)
    later.on(signals.Signal)(heard.append)
    later.topic("orders", OrderPlaced, max_length=2).subscribe(group="quick", start="beginning")(quick)
    async with later, later.worker(lease=LONG):
        await wait_until(lambda: of(signals.TopicHeld, heard))
        assert of(signals.TopicHeld, heard) == [signals.TopicHeld("orders", "slow")]
        clock.advance(DAY + 60)
        await wait_until(lambda: of(signals.GroupPassed, heard))
        await wait_until(lambda: _length(app, 2))
    assert of(signals.GroupPassed, heard) == [signals.GroupPassed("orders", "slow")]
    assert len(of(signals.TopicHeld, heard)) == 1


async def test_with_retention_strict_off_age_wins(app: App, clock: MovableClock) -> None:
    orders = app.topic("orders", OrderPlaced, retention=60, retention_strict=False)

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None: ...

    async with app.worker(lease=LONG):
        pass
    await placed(orders, 1, 2)
    clock.advance(61)
    await placed(orders, 3)
    assert await _length(app, 1)


async def test_lag_oldest_and_in_flight_are_visible_for_each_group(app: App) -> None:
    orders = orders_of(app)
    gate = asyncio.Event()

    @orders.subscribe(group="audit", max_in_flight=2)
    async def audit(order: OrderPlaced) -> None:
        await gate.wait()

    async with app.worker() as worker:
        await placed(orders, *range(10))
        await wait_until(lambda: worker.running == 2)
        group = await group_of(app, "audit")
        assert group is not None
        assert (group.lag, group.running) == (8, 2)
        assert group.oldest is not None
        gate.set()


async def _length(app: App, wanted: int) -> bool:
    [topic] = await app.admin.topics()
    return topic.length == wanted


async def test_a_burst_finds_a_topic_that_is_made_meanwhile(app: App) -> None:
    seen: list[int] = []

    @app.topics("orders.*", OrderPlaced).subscribe(group="audit")
    async def audit(event: OrderPlaced) -> None:
        seen.append(event.order_id)

    @app.task(name="order")
    async def order() -> None:
        await app.topic("orders.eu", OrderPlaced).publish(OrderPlaced(7))

    await order.enqueue()
    worker = app.worker()
    await worker.run(burst=True)
    assert seen == [7]
    assert worker.processed == 2
