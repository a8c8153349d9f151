"""Fan-out: every process gets every event while it runs, and leaves nothing behind."""

from __future__ import annotations

import asyncio

from headrace import AlreadySettled, App, Delivery, Event, RetryPolicy, Snooze, signals
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, orders_of, placed
from tests.unit.behaviour.work import LONG, drain, of


async def test_every_process_gets_every_event_and_leaves_nothing_behind() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}

    def process(name: str) -> App:
        app = App("memory://fan-out-of-two")
        orders = orders_of(app)

        @orders.subscribe(fan_out=True)
        async def refresh(order: OrderPlaced) -> None:
            seen[name].append(order.order_id)

        return app

    a, b = process("a"), process("b")
    async with a, b:
        async with a.worker():
            async with b.worker():
                await placed(orders_of(a), *range(100))
                await wait_until(lambda: len(seen["a"]) == len(seen["b"]) == 100)
            await placed(orders_of(a), 100)
            await wait_until(lambda: len(seen["a"]) == 101)
        [topic] = await a.admin.topics()
        assert topic.groups == ()
        async with b.worker():
            await placed(orders_of(a), 101)
            await wait_until(lambda: 101 in seen["b"])
    assert seen["a"] == list(range(101))
    assert seen["b"] == [*range(100), 101]  # what came while it was away is not its business


async def test_it_begins_where_it_is_told_to(app: App) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(fan_out=True, start="beginning")
    async def refresh(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await placed(orders, *range(300))
    await drain(app)
    assert seen == list(range(300))


async def test_a_failure_is_tried_again_here_and_then_given_up(app: App, heard: list[signals.Signal]) -> None:
    orders = orders_of(app)
    attempts: list[tuple[int, int]] = []

    @orders.subscribe(fan_out=True, start="beginning", retry=RetryPolicy.fixed(2, 0.01))
    async def refresh(delivery: Delivery[OrderPlaced]) -> None:
        number = delivery.payload.order_id
        attempts.append((number, delivery.attempt))
        assert delivery.group is None
        if number == 3 and len(attempts) < 6:
            raise Snooze(0.01)
        if number == 1 or delivery.attempt == 1:
            raise ValueError("broken")

    await placed(orders, 1, 2)
    await drain(app)
    assert sorted(attempts) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    [died] = of(signals.EventDied, heard)
    assert (died.topic, died.group, died.attempt) == ("orders", "", 3)
    assert len(of(signals.EventHandled, heard)) == 1
    attempts.clear()
    await placed(orders, 3)
    async with app.worker(lease=LONG):
        await wait_until(lambda: (3, 2) in attempts)


async def test_there_is_nothing_to_settle(app: App) -> None:
    orders = orders_of(app)
    errors: list[AlreadySettled] = []

    @orders.subscribe(fan_out=True, start="beginning")
    async def refresh(delivery: Delivery[OrderPlaced]) -> None:
        try:
            await delivery.ack()
        except AlreadySettled as error:
            errors.append(error)

    await placed(orders, 1)
    await drain(app)
    assert len(errors) == 1


async def test_with_full_slots_it_waits_and_misses_nothing(app: App) -> None:
    orders = orders_of(app)
    gate, seen = asyncio.Event(), list[int]()

    @orders.subscribe(fan_out=True, max_in_flight=3)
    async def refresh(order: OrderPlaced) -> None:
        await gate.wait()
        seen.append(order.order_id)

    async with app.worker(concurrency=2) as worker:
        await placed(orders, *range(20))
        await wait_until(lambda: worker.running == 2)
        gate.set()
        await wait_until(lambda: seen == list(range(20)))


async def test_an_expired_event_is_announced(
    app: App, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(fan_out=True, start="beginning")
    async def refresh(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    id = await orders.publish(OrderPlaced(1), expires=60)
    await placed(orders, 2)
    clock.advance(61)
    await drain(app)
    assert seen == [2]
    assert [(each.id, each.group) for each in of(signals.EventExpired, heard)] == [(id, "")]


async def test_several_fan_outs_of_one_process_are_apart(app: App) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe(fan_out=True, start="beginning")
    async def one(order: OrderPlaced) -> None:
        seen.append("one")

    @orders.subscribe(fan_out=True, start="beginning")
    def other(order: OrderPlaced) -> None:
        seen.append("other")

    await placed(orders, 1)
    await drain(app)
    assert sorted(seen) == ["one", "other"]


async def test_a_worker_that_stops_does_not_wait_for_what_it_would_try_again(
    app: App, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    tried: list[int] = []

    @orders.subscribe(fan_out=True, retry=RetryPolicy.fixed(5, 3600))
    async def refresh(order: OrderPlaced) -> None:
        tried.append(order.order_id)
        raise ValueError("broken")

    async with app.worker():
        await placed(orders, 1)
        await wait_until(lambda: of(signals.EventFailed, heard))
    assert tried == [1]


async def test_what_fails_while_the_worker_stops_is_not_tried_again(
    app: App, store: InterceptedStore
) -> None:
    orders = orders_of(app)
    gate, tried = asyncio.Event(), list[int]()
    reads = store.watch("read")

    @orders.subscribe(fan_out=True, retry=RetryPolicy.fixed(5, 3600))
    async def refresh(order: OrderPlaced) -> None:
        tried.append(order.order_id)
        await gate.wait()
        raise ValueError("broken")

    async with app.worker() as worker:
        await placed(orders, 1)
        await wait_until(lambda: tried)
        stopping = asyncio.create_task(worker.stop())
        await wait_until(lambda: not reads.under_way)
        gate.set()
        await stopping
    assert tried == [1]


async def test_a_pattern_shares_its_permits_between_its_topics(app: App) -> None:
    gate, inside, most, ended = asyncio.Event(), 0, 0, 0

    @app.topics("orders.*", OrderPlaced).subscribe(fan_out=True, max_in_flight=3)
    async def refresh(event: Event[OrderPlaced]) -> None:
        nonlocal inside, most, ended
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1
        ended += 1

    topics = [app.topic(f"orders.{name}", OrderPlaced) for name in ("eu", "us", "asia")]
    for topic in topics:
        await placed(topic, 0)
    async with app.worker() as worker:
        await asyncio.gather(*(placed(topic, *range(10)) for topic in topics))
        await wait_until(lambda: worker.running == 3)
        gate.set()
        await wait_until(lambda: ended == 30)
    assert most == 3
