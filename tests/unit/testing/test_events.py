"""Events in a test: published first, handled by drain(), looked at like jobs."""

from __future__ import annotations

import msgspec
import pytest

from headrace import App, Event, RetryPolicy
from headrace.testing import Kit, memory


class OrderPlaced(msgspec.Struct, frozen=True):
    order_id: int


async def test_what_was_published_before_is_handled_by_every_subscription(app: App, kit: Kit) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[str] = []

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        seen.append(f"bill {order.order_id}")

    @orders.subscribe(fan_out=True)
    def refresh(order: OrderPlaced) -> None:
        seen.append(f"refresh {order.order_id}")

    @app.topics("*", OrderPlaced).subscribe(group="audit")
    async def audit(event: Event[OrderPlaced]) -> None:
        seen.append(f"audit {event.payload.order_id}")

    for number in (1, 2):
        await orders.publish(OrderPlaced(number))
        await kit.drain()
        assert sorted(seen) == [f"audit {number}", f"bill {number}", f"refresh {number}"]
        seen.clear()
    await kit.drain()
    assert seen == []


async def test_retries_and_delays_move_the_clock(app: App, kit: Kit) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[str] = []

    @orders.subscribe(group="billing", retry=RetryPolicy.fixed(2, 3600))
    async def bill(event: Event[OrderPlaced]) -> None:
        seen.append("bill")
        if len(seen) < 3:
            raise ValueError("again")

    @orders.subscribe(fan_out=True, retry=RetryPolicy.fixed(1, 3600))
    async def refresh(order: OrderPlaced) -> None:
        tried.append(order.order_id)
        raise ValueError("again")

    tried: list[int] = []
    await orders.publish(OrderPlaced(1))
    await kit.drain()
    assert seen == ["bill"] * 3
    assert tried == [1, 1]
    await orders.publish(OrderPlaced(2), delay=86400)
    await kit.drain()
    assert len(seen) == 3
    await kit.drain(scheduled=True)
    assert len(seen) == 4


async def test_jobs_and_events_that_follow_from_each_other(app: App, kit: Kit) -> None:
    orders, bills = app.topic("orders", OrderPlaced), app.topic("bills", int)
    seen: list[int] = []

    @app.task(name="bill")
    async def bill(order: OrderPlaced) -> None:
        await bills.publish(order.order_id)

    @bills.subscribe(group="audit")
    async def audit(number: int) -> None:
        seen.append(number)

    orders.feed(bill)
    await orders.publish(OrderPlaced(7))
    await kit.drain()
    assert seen == [7]
    kit.assert_enqueued(bill, count=1)
    assert len(kit.enqueued()) == 1


async def test_the_error_of_an_event_that_died_is_raised(app: App, kit: Kit) -> None:
    orders = app.topic("orders", OrderPlaced)

    @orders.subscribe(group="billing", retry=RetryPolicy.none())
    async def bill(order: OrderPlaced) -> None:
        raise ValueError("broken")

    await orders.publish(OrderPlaced(7))
    with pytest.raises(ValueError, match="broken"):
        await kit.drain(raise_errors=True)


async def test_what_was_published_is_looked_at(app: App, kit: Kit) -> None:
    orders, bills = app.topic("orders", OrderPlaced), app.topic("bills", int)
    id = await orders.publish(OrderPlaced(7), key="customer-3", idempotency_key="a", expires=60)
    await orders.publish(OrderPlaced(7), idempotency_key="a")
    await bills.publish(1)
    [event] = kit.assert_published(orders, OrderPlaced(7), key="customer-3", count=1)
    assert (event.id, event.payload, event.topic) == (id, OrderPlaced(7), "orders")
    assert event.expires_at is not None
    assert [each.payload for each in kit.published()] == [OrderPlaced(7), 1]
    assert kit.published("bills")[0].payload == 1
    with pytest.raises(AssertionError, match=r"OrderPlaced\(order_id=8\) was not published to orders; "):
        kit.assert_published(orders, OrderPlaced(8))
    with pytest.raises(AssertionError, match="published to bills 1 times, not 2"):
        kit.assert_published(bills, count=2)
    kit.clear()
    with pytest.raises(AssertionError, match="nothing was published"):
        kit.assert_published(orders)


async def test_the_real_store_hears_of_nothing() -> None:
    app = App("memory://kit-and-events")
    orders = app.topic("orders", OrderPlaced)
    with memory(app) as kit:
        await orders.publish(OrderPlaced(7))
        kit.assert_published(orders)
    assert await app.admin.topics() == []
    await app.close()


def test_plain_tests(app: App, kit: Kit) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="billing")
    def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    app.sync.publish(orders, OrderPlaced(7))
    kit.sync.drain()
    assert seen == [7]


async def test_with_queues_named_events_are_left_alone(app: App, kit: Kit) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await orders.publish(OrderPlaced(7))
    await kit.drain(queues=["default"])
    assert seen == []
    await kit.drain()
    assert seen == [7]
