"""What type checkers must say of topics, subscriptions and deliveries; see `jobs.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import msgspec

from headrace import (
    App,
    BatchResult,
    Delivery,
    Depends,
    Duplicate,
    Event,
    Job,
    Published,
    Refused,
    RetryPolicy,
    Topic,
    TopicPattern,
    signals,
)


class OrderPlaced(msgspec.Struct):
    order_id: int


class BillSent(msgspec.Struct):
    bill_id: int


app = App("memory://")
orders = app.topic(
    "orders", OrderPlaced, retention=timedelta(days=7), max_length=1000, overflow="refuse", partitions=8
)
anything = app.topic("anything")
every_shop = app.topics("orders.*", OrderPlaced)

assert_type(orders, Topic[OrderPlaced])
assert_type(anything, Topic[Any])
assert_type(every_shop, TopicPattern[OrderPlaced])
assert_type(orders.name, str)


@orders.subscribe(group="billing", retry=RetryPolicy.none(), start="beginning")
async def bill(event: OrderPlaced) -> None: ...


@orders.subscribe("shipping", start=datetime(2030, 1, 1, tzinfo=UTC), max_in_flight=5)
def ship(event: Event[OrderPlaced]) -> None:
    assert_type(event.payload, OrderPlaced)
    assert_type(event.key, str | None)
    assert_type(event.occurred_at, datetime)


@orders.subscribe(group="audit", ack="manual")
async def audit(delivery: Delivery[OrderPlaced]) -> None:
    assert_type(delivery.payload, OrderPlaced)
    assert_type(delivery.event, Event[OrderPlaced])
    assert_type(delivery.attempt, int)
    await delivery.ack()
    await delivery.reject("why")
    await delivery.retry(5)
    await delivery.retry(timedelta(seconds=5), reason="busy")
    await delivery.reject()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def get_price() -> int:
    return 42


@orders.subscribe(fan_out=True)
async def refresh(event: OrderPlaced, price: int = Depends(get_price)) -> None: ...


@orders.subscribe(group="index", batch=500)
async def index(events: list[OrderPlaced]) -> BatchResult:
    return BatchResult(failed={0: ValueError("broken"), 1: "broken"})


@orders.subscribe(group="index-events", batch=500)
def index_events(events: list[Event[OrderPlaced]]) -> None: ...


@every_shop.subscribe(group="audit", ordered=True)
async def follow(event: Event[OrderPlaced]) -> None: ...


@app.task
async def send_mail(order: OrderPlaced) -> None: ...


@app.task
def send_bill(bill: BillSent) -> None: ...


async def check_what_a_handler_is_afterwards() -> None:
    await bill(OrderPlaced(7))
    await index([OrderPlaced(7)])
    await bill(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@app.topic("bills", BillSent, schema_version=2).upcast(from_version=1)
def newer_bill(payload: dict[str, int]) -> dict[str, int]:
    return payload


@orders.subscribe(group="archive", schema_versions=range(1, 3))
async def archive(event: OrderPlaced) -> None: ...


async def check_pulling() -> None:
    async with orders.consume(group="audit", ack="manual", start="new") as deliveries:
        async for delivery in deliveries:
            assert_type(delivery, Delivery[OrderPlaced])
            await delivery.ack()
    orders.consume(group="audit", ack="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def check_short_forms() -> None:
    assert_type(orders.sync.publish(OrderPlaced(7), key="a"), str)
    assert_type(orders.sync.publish_many([OrderPlaced(7)]), list[Published | Duplicate | Refused])
    orders.sync.publish(BillSent(7))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def check_publishing() -> None:
    assert_type(await orders.publish(OrderPlaced(7)), str)
    await orders.publish(OrderPlaced(7), key="a", headers={"a": "b"}, delay=timedelta(seconds=5), expires=60)
    await orders.publish(BillSent(7))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await orders.publish(OrderPlaced(7), headers={"a": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    await orders.publish(OrderPlaced(7), at="tomorrow")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await orders.publish(OrderPlaced(7), occurred_at=datetime.now(UTC), content_type="application/json")
    await anything.publish({"any": "thing"})
    outcomes = await orders.publish_many([OrderPlaced(1), orders.message(OrderPlaced(2), key="a")])
    assert_type(outcomes, list[Published | Duplicate | Refused])
    await orders.publish_many([BillSent(7)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await orders.replay(group="billing", since=datetime.now(UTC))
    await orders.replay(since="beginning")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def check_what_is_refused() -> None:
    async def wrong(event: BillSent) -> None: ...
    async def wrong_list(events: list[BillSent]) -> None: ...
    async def no_list(event: OrderPlaced) -> None: ...

    orders.subscribe(group="a")(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    orders.subscribe(group="a", batch=5)(wrong_list)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    orders.subscribe(group="a", batch=5)(no_list)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    orders.subscribe(group="a", ack="never")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    orders.subscribe(group="a", batch=5, ack="manual")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    orders.subscribe(group="a", retries=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    app.topic("a", int, retention=None, max_length=5, idempotency_window=timedelta(hours=1), partitions=2)
    app.topic("a", int, retension=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    app.topic("a", int, max_length="5")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    orders.message(OrderPlaced(7), kee="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def check_feeding() -> None:
    orders.feed(send_mail)
    orders.feed(send_mail, group="mail", start="beginning")
    orders.feed(send_bill)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@app.on(signals.EventDied)
def died(signal: signals.EventDied) -> None:
    assert_type(signal.topic, str)
    assert_type(signal.group, str)


async def check_transactions(connection: object) -> None:
    job = await app.enqueue(send_mail.call(OrderPlaced(7)), transaction=connection)
    assert_type(job, Job[None])
    assert_type(app.sync.enqueue(send_mail.call(OrderPlaced(7)), transaction=connection), Job[None])
    assert_type(await send_mail.with_(transaction=connection).enqueue(OrderPlaced(7)), Job[None])
    await orders.publish(OrderPlaced(7), key="customer-3", transaction=connection)
    await orders.publish("wrong", transaction=connection)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.sync.publish(orders, OrderPlaced(7), transaction=connection)
