"""Publishing: what is stored, what is refused, and what travels with an event."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headrace import (
    App,
    BackendUnavailable,
    ConfigurationError,
    Duplicate,
    Event,
    InvalidPayload,
    PayloadTooLarge,
    Published,
    Refused,
    current_job,
    signals,
)
from headrace.core.messages.message import Batch
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import MovableClock
from headrace.engine.producing import producer_lane
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, numbers, orders_of, placed, until_done
from tests.unit.behaviour.work import LONG, drain, of

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_the_id_of_an_event_is_the_answer(app: App) -> None:
    orders = orders_of(app)
    seen: list[Event[OrderPlaced]] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[OrderPlaced]) -> None:
        seen.append(event)

    id = await orders.publish(OrderPlaced(7))
    await drain(app)
    assert [event.id for event in seen] == [id]
    assert len(id) == 26


async def test_the_envelope_is_carried_through(app: App) -> None:
    orders = app.topic("orders", OrderPlaced, schema_version=3)
    seen: list[Event[OrderPlaced]] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[OrderPlaced]) -> None:
        seen.append(event)

    before = datetime.now(UTC)
    await orders.publish(
        OrderPlaced(7),
        key="customer-3",
        headers={"tenant": "acme", "traceparent": TRACE},
        kind="order.placed",
        source="web",
        expires=600,
        idempotency_key="order-7",
        correlation_id="request-1",
    )
    await drain(app)
    [event] = seen
    assert (event.topic, event.payload, event.key) == ("orders", OrderPlaced(7), "customer-3")
    assert event.headers == {"tenant": "acme", "traceparent": TRACE}
    assert (event.kind, event.source, event.schema_version) == ("order.placed", "web", 3)
    assert (event.idempotency_key, event.correlation_id) == ("order-7", "request-1")
    assert (event.traceparent, event.content_type) == (TRACE, "application/msgpack")
    assert timedelta(0) <= event.occurred_at - before < timedelta(seconds=10)
    assert event.expires_at is not None
    assert timedelta(0) < event.expires_at - event.occurred_at <= timedelta(seconds=601)


async def test_what_is_not_said_is_not_there(app: App) -> None:
    orders = orders_of(app)
    seen: list[Event[OrderPlaced]] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[OrderPlaced]) -> None:
        seen.append(event)

    await orders.publish(OrderPlaced(7))
    await drain(app)
    [event] = seen
    assert (event.kind, event.schema_version) == ("OrderPlaced", 1)
    assert event.headers == {}
    assert [event.key, event.source, event.idempotency_key, event.expires_at] == [None] * 4
    assert [event.traceparent, event.correlation_id] == [None] * 2


async def test_trace_and_correlation_are_inherited_from_event_to_event(app: App) -> None:
    orders, bills = orders_of(app), app.topic("bills", int)
    seen: list[Event[int]] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[OrderPlaced]) -> None:
        await bills.publish_many([event.payload.order_id])

    @bills.subscribe(group="audit", start="beginning")
    async def audit(event: Event[int]) -> None:
        seen.append(event)

    first = await orders.publish(OrderPlaced(1), headers={"traceparent": TRACE})
    await drain(app)
    await orders.publish(OrderPlaced(2), correlation_id="request-1")
    await drain(app)
    assert [(event.traceparent, event.correlation_id) for event in seen] == [
        (TRACE, first),  # who began it is what belongs together
        (None, "request-1"),
    ]


async def test_an_event_of_a_job_inherits_its_trace(app: App) -> None:
    orders = orders_of(app)
    seen: list[Event[OrderPlaced]] = []

    @app.task(name="order")
    async def order() -> None:
        await orders.publish(OrderPlaced(1))

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: Event[OrderPlaced]) -> None:
        seen.append(event)

    await order.with_(headers={"traceparent": TRACE, "correlation-id": "request-1"}).enqueue()
    await drain(app)
    assert [(event.traceparent, event.correlation_id) for event in seen] == [(TRACE, "request-1")]


async def test_one_outcome_for_each_message_in_order_and_one_bad_one_spoils_no_other(app: App) -> None:
    orders = app.topic("orders", OrderPlaced)
    small = App("memory://", max_payload=1000).topic("notes", str)
    bad: list[Any] = [
        object(),  # cannot be encoded
        "no order",  # is of another type
        orders.message(OrderPlaced(1), delay=-1),
        orders.message(OrderPlaced(2), delay=1, at=datetime.now(UTC)),
        orders.message(OrderPlaced(3), at=datetime(2030, 1, 1)),
        orders.message(OrderPlaced(4), expires=0),
        orders.message(OrderPlaced(5), key=""),
        orders.message(OrderPlaced(6), headers={"a": 1}),  # type: ignore[dict-item]
        orders.message(OrderPlaced(7), schema_version="x"),  # type: ignore[arg-type]
        orders.message(OrderPlaced(8), source="\ud800"),
        orders.message(OrderPlaced(9), headers={"a": "x" * 100_000}),
    ]
    outcomes = await orders.publish_many([OrderPlaced(0), *bad, OrderPlaced(10)])
    assert [type(each) for each in outcomes] == [Published, *[Refused] * len(bad), Published]
    kinds = [type(each.error) for each in outcomes if isinstance(each, Refused)]
    assert kinds == [InvalidPayload] * 2 + [ConfigurationError] * 8 + [PayloadTooLarge]
    large = await small.publish_many(["a", "x" * 2000])
    assert isinstance(large[1], Refused)
    assert isinstance(large[1].error, PayloadTooLarge)


async def test_what_publish_refuses_it_raises(app: App) -> None:
    orders = orders_of(app)
    with pytest.raises(InvalidPayload, match="the event is not a valid OrderPlaced"):
        await orders.publish("no order")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="delay= or at=, not both"):
        await orders.publish(OrderPlaced(1), delay=1, at=datetime.now(UTC))


async def test_plain_data_that_fits_the_type_is_taken(app: App) -> None:
    orders = orders_of(app)
    assert await orders.publish({"order_id": 7})  # type: ignore[arg-type]


async def test_a_codec_that_fails_refuses_one_message(clock: MovableClock) -> None:
    class Fussy:
        def encode(self, data: bytes) -> bytes:
            if b"bad" in data:
                raise RuntimeError("no key")
            return data

        def decode(self, data: bytes) -> bytes:
            return data

    notes = App("memory://", codec=Fussy(), clock=clock).topic("notes", str)
    good, bad = await notes.publish_many(["good", "bad"])
    assert isinstance(good, Published)
    assert isinstance(bad, Refused)
    assert isinstance(bad.error, RuntimeError)


async def test_when_the_store_goes_away_what_was_stored_before_is_told_apart(
    app: App, store: InterceptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    append, tried = store.append, 0

    async def once(batch: Batch) -> list[Answer]:
        nonlocal tried
        tried += 1
        if tried > 1:
            raise BackendUnavailable("it is away", uncertain=True)
        return await append(batch)

    monkeypatch.setattr(producer_lane, "RETRY_TIME", 0.0)
    store.intercept("append", once)
    outcomes = await orders.publish_many([OrderPlaced(each) for each in range(1600)])
    assert [type(each) for each in outcomes] == [Published] * 500 + [Refused] * 1100
    assert tried == 2  # the rest is not tried


async def test_many_are_published_and_handled(app: App) -> None:
    orders = orders_of(app)
    seen: list[OrderPlaced] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event)

    outcomes = await orders.publish_many(OrderPlaced(each) for each in range(1234))
    assert all(isinstance(each, Published) for each in outcomes)
    await drain(app)
    assert sorted(numbers(seen)) == list(range(1234))


async def test_many_of_one_key_are_handled_in_order_where_that_is_asked_for(app: App) -> None:
    orders = orders_of(app)
    seen: list[OrderPlaced] = []

    @orders.subscribe(group="billing", ordered=True, start="beginning")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event)

    await placed(orders, *range(1234), key="customer-3")
    await drain(app)
    assert numbers(seen) == list(range(1234))


async def test_nothing_to_publish(app: App) -> None:
    assert await orders_of(app).publish_many([]) == []


async def test_a_delayed_event_is_stored_and_delivered_when_it_is_due(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    orders = orders_of(app)
    seen: list[OrderPlaced] = []

    @orders.subscribe(group="billing")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event)

    async with app.worker(lease=LONG):
        await orders.publish(OrderPlaced(1), delay=3600)
        await orders.publish(OrderPlaced(2), at=datetime.fromtimestamp(clock.now_us() / 1e6 + 60, UTC))
        await orders.publish(OrderPlaced(3))
        await wait_until(lambda: numbers(seen) == [3])
        store.pass_time(61)
        await wait_until(lambda: numbers(seen) == [3, 2])
        store.pass_time(3600)
        await wait_until(lambda: numbers(seen) == [3, 2, 1])


async def test_the_same_idempotency_key_is_stored_once_within_its_window(
    app: App, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    orders = app.topic("orders", OrderPlaced, idempotency_window=60)
    first = await orders.publish(OrderPlaced(1), idempotency_key="a")
    assert await orders.publish(OrderPlaced(2), idempotency_key="a") == first
    again, other = await orders.publish_many(
        [orders.message(OrderPlaced(3), idempotency_key=key) for key in ("a", "b")]
    )
    assert again == Duplicate(first)
    assert isinstance(other, Published)
    clock.advance(61)
    assert await orders.publish(OrderPlaced(4), idempotency_key="a") != first
    told = of(signals.EventPublished, heard)
    assert [each.duplicate for each in told] == [False, True, True, False, False]
    assert {(each.topic, each.kind) for each in told} == {("orders", "OrderPlaced")}


async def test_an_expired_event_is_not_handled_but_announced(
    app: App, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[OrderPlaced] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event)

    id = await orders.publish(OrderPlaced(1), expires=60)
    await orders.publish(OrderPlaced(2), expires=600)
    clock.advance(61)
    await drain(app)
    assert numbers(seen) == [2]
    assert of(signals.EventExpired, heard) == [signals.EventExpired(id, "OrderPlaced", "orders", "billing")]


async def test_from_another_event_loop(app: App) -> None:
    orders = orders_of(app)
    ids: list[str] = []
    await orders.publish(OrderPlaced(1))
    thread = threading.Thread(target=lambda: ids.append(asyncio.run(orders.publish(OrderPlaced(2)))))
    thread.start()
    await wait_until(lambda: ids)
    thread.join()


async def test_a_tagged_union_says_its_kind(app: App) -> None:
    class Placed(msgspec.Struct, tag=True):
        order_id: int

    class Shipped(msgspec.Struct, tag=True):
        order_id: int

    changes = app.topic("changes", Placed | Shipped)
    seen: list[Event[Any]] = []

    @changes.subscribe(group="audit", start="beginning")
    async def audit(event: Event[Any]) -> None:
        seen.append(event)

    await changes.publish_many([Placed(1), Shipped(1)])
    await drain(app)
    assert [(event.kind, event.payload) for event in seen] == [
        ("Placed", Placed(1)),
        ("Shipped", Shipped(1)),
    ]


async def test_events_of_a_topic_without_a_type_arrive_as_the_handler_wants_them(app: App) -> None:
    anything = app.topic("anything")
    seen: list[Any] = []

    @anything.subscribe(group="typed", start="beginning")
    async def typed(event: OrderPlaced) -> None:
        seen.append(event)

    @anything.subscribe(group="plain", start="beginning")
    async def plain(event: Any) -> None:
        seen.append(event)

    await anything.publish(OrderPlaced(7))
    await drain(app)
    assert OrderPlaced(7) in seen
    assert {"order_id": 7} in seen


# --- feeding jobs ----------------------------------------------------------------------------------------


async def test_an_event_starts_a_job_with_its_payload_and_headers(app: App) -> None:
    orders = orders_of(app)
    seen: list[tuple[OrderPlaced, dict[str, str]]] = []

    @app.task(name="bill")
    async def bill(order: OrderPlaced) -> None:
        seen.append((order, dict(current_job().headers)))

    orders.feed(bill, start="beginning")
    id = await orders.publish(OrderPlaced(7), headers={"traceparent": TRACE, "tenant": "acme"})
    await drain(app)
    assert seen == [(OrderPlaced(7), {"traceparent": TRACE, "tenant": "acme", "correlation-id": id})]


async def test_an_event_that_is_handled_twice_starts_one_job(app: App) -> None:
    orders = orders_of(app)
    ran: list[int] = []

    @app.task(name="bill")
    async def bill(order: OrderPlaced) -> None:  # keeps no result: when it is over, nothing of it is left
        ran.append(order.order_id)

    orders.feed(bill, start="beginning")
    await placed(orders, 1, 2)
    await drain(app)
    await orders.replay(group="feed:bill")
    await drain(app)
    assert ran == [1, 2]


async def test_a_full_queue_holds_a_feed_up_and_buries_nothing(store: InterceptedStore) -> None:
    app = App(store=store, clock=store.clock, queue_limit=1)
    orders = orders_of(app)
    ran: list[int] = []

    @app.task(name="bill", queue="bills")
    async def bill(order: OrderPlaced) -> None:
        ran.append(order.order_id)

    orders.feed(bill, start="beginning")
    await placed(orders, *range(3))
    async with app.worker(queues=[], lease=LONG):
        await wait_until(lambda: _waiting_in_outbox(store))
    async with app.worker(lease=LONG):

        def all_have_run() -> bool:
            store.pass_time(2)
            return sorted(ran) == [0, 1, 2]

        await wait_until(all_have_run)
        await until_done(app, "feed:bill")
    await app.close()


async def test_a_store_that_takes_nothing_new_holds_a_feed_up_and_buries_nothing(
    store: InterceptedStore,
) -> None:
    """As SQLite on a disk that is almost full."""
    app = App(store=store, clock=store.clock)
    orders = orders_of(app)
    ran: list[int] = []

    @app.task(name="bill")
    async def bill(order: OrderPlaced) -> None:
        ran.append(order.order_id)

    orders.feed(bill, start="beginning")
    await placed(orders, *range(2))
    append = store.append

    async def refuse(batch: Batch) -> list[Answer]:
        raise BackendUnavailable("the disk is full")

    store.append = refuse  # type: ignore[method-assign]
    async with app.worker(lease=LONG):
        await wait_until(lambda: _waiting_in_outbox(store))
        store.append = append  # type: ignore[method-assign]
        store.pass_time(2)
        await wait_until(lambda: sorted(ran) == [0, 1])
        await until_done(app, "feed:bill")
    await app.close()


async def _waiting_in_outbox(store: InterceptedStore) -> bool:
    records = await store.outboxes()
    return [record.waiting for record in records] == [2]
