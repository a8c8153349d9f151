"""Events: what happened, published to a topic, handled by every group that subscribes to it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headrace import (
    AlreadySettled,
    App,
    BatchResult,
    ConfigurationError,
    Delivery,
    Duplicate,
    Event,
    EventInfo,
    GroupInfo,
    InvalidPayload,
    Published,
    Refused,
    RetryPolicy,
    Topic,
    TopicInfo,
    TopicPattern,
    UnknownEvent,
    signals,
)
from tests.support.waiting import wait_until


class OrderPlaced(msgspec.Struct, frozen=True):
    order_id: int


async def test_an_event_is_published_and_handled() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced, retention=timedelta(days=7))
    billed: list[int] = []

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        billed.append(order.order_id)

    async with app, app.worker():
        await orders.publish(OrderPlaced(7), key="customer-3", headers={"source": "web"})
        await wait_until(lambda: billed == [7])


async def test_each_group_sees_every_event() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    seen: list[str] = []

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None:
        seen.append(f"bill {order.order_id}")

    @orders.subscribe(group="shipping")  # a plain function runs in a thread
    def ship(order: OrderPlaced) -> None:
        seen.append(f"ship {order.order_id}")

    async with app, app.worker():
        await orders.publish(OrderPlaced(7))
        await wait_until(lambda: sorted(seen) == ["bill 7", "ship 7"])


async def test_an_event_has_an_envelope() -> None:
    app = App("memory://")
    orders: Topic[OrderPlaced] = app.topic("orders", OrderPlaced)
    seen: list[Event[OrderPlaced]] = []

    @orders.subscribe(group="audit")
    async def audit(event: Event[OrderPlaced]) -> None:
        seen.append(event)

    async with app, app.worker():
        id = await orders.publish(OrderPlaced(7), key="customer-3", kind="order.placed", source="web")
        await wait_until(lambda: seen)
    [event] = seen
    assert (event.id, event.topic, event.payload) == (id, "orders", OrderPlaced(7))
    assert (event.key, event.kind, event.source) == ("customer-3", "order.placed", "web")
    assert event.occurred_at <= datetime.now(UTC)


async def test_publishing_many_has_an_outcome_for_each() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    async with app:
        outcomes = await orders.publish_many(
            [
                OrderPlaced(1),
                orders.message(OrderPlaced(2), key="customer-3", idempotency_key="order-2"),
                orders.message(OrderPlaced(2), key="customer-3", idempotency_key="order-2"),
                "no order",  # type: ignore[list-item]
            ]
        )
    for outcome in outcomes:
        match outcome:
            case Published(id=id) | Duplicate(id=id):
                assert id
            case Refused(error=error):
                assert isinstance(error, InvalidPayload)
    assert [type(each) for each in outcomes] == [Published, Published, Duplicate, Refused]


async def test_an_event_for_later() -> None:
    app = App("memory://")
    reminders = app.topic("reminders", str)
    seen: list[str] = []

    @reminders.subscribe(group="mail")
    async def mail(text: str) -> None:
        seen.append(text)

    async with app, app.worker():
        await reminders.publish("soon", delay=0.05)
        await reminders.publish("tomorrow", at=datetime.now(UTC) + timedelta(days=1))
        await reminders.publish("not for long", expires=60)
        await wait_until(lambda: seen == ["not for long", "soon"])


async def test_a_failure_is_tried_again_by_its_group_alone_and_laid_aside_in_the_end() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    bank_is_open = False
    seen: list[str] = []

    @orders.subscribe(group="billing", retry=RetryPolicy.fixed(2, delay=0))
    async def bill(order: OrderPlaced) -> None:
        if not bank_is_open:
            raise ConnectionError("the bank is closed")
        seen.append("billed")

    @orders.subscribe(group="shipping")
    async def ship(order: OrderPlaced) -> None:
        seen.append("shipped")

    async with app, app.worker():
        await orders.publish(OrderPlaced(7))
        await wait_until(lambda: app.admin.dead(topic="orders", group="billing"))
        (letter,) = await _letters(app)
        assert (letter.reason, letter.error, letter.attempts) == ("exhausted", "the bank is closed", 3)

        bank_is_open = True
        await app.admin.replay(ids=[letter.id], topic="orders", group="billing")
        await wait_until(lambda: seen == ["shipped", "billed"])


async def _letters(app: App):  # type: ignore[no-untyped-def]
    async def are_there() -> bool:
        return len(await app.admin.dead(topic="orders")) > 0

    await wait_until(are_there)
    return await app.admin.dead(topic="orders")


async def test_a_delivery_is_settled_by_hand() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    steps: list[str] = []

    @orders.subscribe(group="audit", ack="manual", retry=RetryPolicy.fixed(1, delay=0))
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        if delivery.payload.order_id < 0:
            await delivery.reject("there is no such order")  # to the dead letters
        elif delivery.attempt == 1:
            await delivery.retry(delay=0)
        else:
            await delivery.ack()
        steps.append(f"{delivery.payload.order_id}, attempt {delivery.attempt}")
        with pytest.raises(AlreadySettled):
            await delivery.ack()

    async with app, app.worker():
        await orders.publish_many([OrderPlaced(-1), OrderPlaced(7)])
        await wait_until(lambda: sorted(steps) == ["-1, attempt 1", "7, attempt 1", "7, attempt 2"])


async def test_a_handler_that_forgets_to_settle_is_announced() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    forgotten: list[str] = []

    @app.on(signals.EventUnsettled)
    def tell(signal: signals.EventUnsettled) -> None:
        forgotten.append(signal.id)

    @orders.subscribe(group="audit", ack="manual")
    async def audit(delivery: Delivery[OrderPlaced]) -> None: ...

    async with app, app.worker():
        id = await orders.publish(OrderPlaced(7))
        await wait_until(lambda: forgotten == [id])  # it comes again when its lease is out


async def test_every_process_gets_every_event() -> None:
    caches: dict[str, list[int]] = {"one": [], "other": []}

    def process(name: str) -> App:
        app = App("memory://guide-fan-out")  # apps of this name share the store, as processes would

        @app.topic("orders", OrderPlaced).subscribe(fan_out=True)
        async def refresh(order: OrderPlaced) -> None:
            caches[name].append(order.order_id)

        return app

    one, other = process("one"), process("other")
    async with one, other, one.worker(), other.worker():
        await one.topic("orders", OrderPlaced).publish(OrderPlaced(7))
        await wait_until(lambda: caches == {"one": [7], "other": [7]})


async def test_events_of_a_key_in_order() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="stock", ordered=True)
    async def book(order: OrderPlaced) -> None:
        await asyncio.sleep(0.001 * (10 - order.order_id))
        seen.append(order.order_id)

    async with app, app.worker():
        await orders.publish_many([orders.message(OrderPlaced(n), key="customer-3") for n in range(10)])
        await wait_until(lambda: seen == list(range(10)))


async def test_a_list_at_a_time() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    indexed: list[int] = []

    @orders.subscribe(group="index", batch=500, retry=RetryPolicy.none())
    async def index(events: list[OrderPlaced]) -> BatchResult:
        failed = {at: "no such order" for at, event in enumerate(events) if event.order_id < 0}
        indexed.extend(event.order_id for event in events if event.order_id >= 0)
        return BatchResult(failed=failed)

    async with app, app.worker():
        await orders.publish_many([OrderPlaced(1), OrderPlaced(-1), OrderPlaced(2)])
        await wait_until(lambda: indexed == [1, 2])
        assert len(await _letters(app)) == 1


async def test_every_topic_that_matches() -> None:
    app = App("memory://")
    seen: list[str] = []
    every_shop: TopicPattern[OrderPlaced] = app.topics("orders.*", OrderPlaced)

    @every_shop.subscribe(group="audit")
    async def audit(event: Event[OrderPlaced]) -> None:
        seen.append(event.topic)

    async with app, app.worker():
        await app.topic("orders.eu", OrderPlaced).publish(OrderPlaced(7))
        await wait_until(lambda: seen == ["orders.eu"])


async def test_an_event_starts_a_job() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    sent: list[int] = []

    @app.task
    async def send_mail(order: OrderPlaced) -> None:
        sent.append(order.order_id)

    orders.feed(send_mail)
    async with app, app.worker():
        await orders.publish(OrderPlaced(7))
        await wait_until(lambda: sent == [7])


async def test_history_is_read_again() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async with app, app.worker():
        ids = [await orders.publish(OrderPlaced(n)) for n in (1, 2, 3)]
        await wait_until(lambda: seen == [1, 2, 3])
        await orders.replay(group="billing", since=ids[1])
        await wait_until(lambda: seen == [1, 2, 3, 2, 3])
        with pytest.raises(UnknownEvent):
            await orders.replay(group="billing", since="0" * 26)


async def test_topics_and_groups_are_looked_at() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None: ...

    async with app:
        await app.worker().run(burst=True)
        await orders.publish(OrderPlaced(7))
        (topic,) = await app.admin.topics()
        assert isinstance(topic, TopicInfo)
        (group,) = topic.groups
        assert isinstance(group, GroupInfo)
        assert (topic.name, group.group, group.lag) == ("orders", "billing", 1)
        async for event in app.admin.tail("orders", since="beginning", follow=False):
            assert isinstance(event, EventInfo)
            assert event.topic == "orders"


async def test_what_cannot_work_is_said_where_it_is_written() -> None:
    app = App("memory://")
    orders = app.topic("orders", OrderPlaced)
    with pytest.raises(ConfigurationError, match=r"fan_out=True with ack='manual'"):
        orders.subscribe(fan_out=True, ack="manual")
