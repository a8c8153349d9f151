"""Deliveries: what handlers get, how they settle it, and what happens when they do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from headrace import (
    AlreadySettled,
    App,
    AppClosed,
    BackendUnavailable,
    ConfigurationError,
    Delivery,
    Depends,
    Event,
    RetryPolicy,
    Run,
    UnknownEvent,
    Unrecoverable,
    current_job,
    signals,
)
from headrace.core.messages.event_envelope import EventEnvelope
from headrace.core.messages.message import ENVELOPE_VERSION, encode_envelope, group_stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.records.answers import Promoted
from headrace.core.runtime.clock import MovableClock
from headrace.engine.declared.registry import CallNext
from headrace.store import Batch, Message, Stream
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import (
    OrderPlaced,
    counts,
    dead,
    group_of,
    orders_of,
    placed,
    smuggle,
    until_dead,
    until_done,
)
from tests.unit.behaviour.work import LONG, drain, of

# --- groups and forms ------------------------------------------------------------------------------------


async def test_each_group_sees_every_event_and_its_members_share_them() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": [], "billing of a": [], "billing of b": []}

    def member(name: str) -> App:
        app = App("memory://shared-by-members")
        orders = orders_of(app)

        @orders.subscribe(group="billing")
        async def bill(event: OrderPlaced) -> None:
            await asyncio.sleep(0)
            seen[f"billing of {name}"].append(event.order_id)

        @orders.subscribe(group=f"audit-{name}")
        async def audit(event: OrderPlaced) -> None:
            seen[name].append(event.order_id)

        return app

    a, b = member("a"), member("b")
    async with a, b, a.worker(concurrency=5), b.worker(concurrency=5):
        await placed(orders_of(a), *range(100))
        await wait_until(lambda: sum(map(len, seen.values())) == 300)
    assert sorted(seen["a"]) == sorted(seen["b"]) == list(range(100))
    assert sorted(seen["billing of a"] + seen["billing of b"]) == list(range(100))


async def test_handlers_take_the_payload_the_event_or_the_delivery_async_or_plain(app: App) -> None:
    orders = orders_of(app)
    seen: dict[str, object] = {}

    @orders.subscribe(group="payload", start="beginning")
    async def payload(order: OrderPlaced) -> None:
        seen["payload"] = order

    @orders.subscribe(group="event", start="beginning")
    async def event(event: Event[OrderPlaced]) -> None:
        seen["event"] = event.payload, event.topic

    @orders.subscribe(group="delivery", start="beginning")
    async def delivery(delivery: Delivery[OrderPlaced]) -> None:
        seen["delivery"] = delivery.payload, delivery.attempt, delivery.group, delivery.redelivered

    @orders.subscribe(group="plain-payload", start="beginning")
    def plain_payload(order: OrderPlaced) -> None:
        seen["plain payload"] = order

    @orders.subscribe(group="plain-event", start="beginning")
    def plain_event(event: Event[OrderPlaced]) -> None:
        seen["plain event"] = event.payload

    @orders.subscribe(group="plain-delivery", start="beginning", ack="manual")
    def plain_delivery(delivery: Delivery[OrderPlaced]) -> None:
        delivery.ack_sync()
        seen["plain delivery"] = delivery.settled

    @orders.subscribe(group="untyped", start="beginning")
    async def untyped(order) -> None:  # type: ignore[no-untyped-def]
        seen["untyped"] = order

    await placed(orders, 7)
    await drain(app)
    order = OrderPlaced(7)
    assert seen == {
        "payload": order,
        "event": (order, "orders"),
        "delivery": (order, 1, "delivery", False),
        "plain payload": order,
        "plain event": order,
        "plain delivery": True,
        "untyped": order,
    }


async def test_dependencies_lifespan_middleware_and_current_job(clock: MovableClock) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        yield "the state"

    app = App("memory://", clock=clock, lifespan=lifespan)
    orders = orders_of(app)
    seen: list[object] = []

    def price() -> int:
        return 42

    @app.use
    async def around(run: Run, call_next: CallNext) -> object:
        seen.append((run.topic, run.group, run.task))
        return await call_next(run)

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced, price: int = Depends(price)) -> None:
        job = current_job()
        seen.append((order.order_id, price, job.state, job.attempt, job.queue))

    async with app:
        await placed(orders, 7)
        await drain(app)
    assert seen == [("orders", "billing", "OrderPlaced"), (7, 42, "the state", 1, "orders/billing")]


async def test_a_slow_group_holds_up_nobody_else(app: App) -> None:
    orders = orders_of(app)
    gate, seen, ran = asyncio.Event(), list[int](), list[int]()

    @orders.subscribe(group="slow")
    async def slow(order: OrderPlaced) -> None:
        await gate.wait()

    @orders.subscribe(group="quick")
    async def quick(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    @orders.subscribe(fan_out=True)
    async def everywhere(order: OrderPlaced) -> None:
        seen.append(-order.order_id)

    @app.task(name="job")
    async def job(n: int) -> None:
        ran.append(n)

    async with app.worker(concurrency=5):
        await placed(orders, *range(1, 101))
        await app.enqueue_many([job.call(n) for n in range(50)])
        await wait_until(lambda: len(seen) == 200 and len(ran) == 50)
        assert (await counts(app, "slow")).running > 0
        gate.set()
        await until_done(app, "slow")


# --- settling --------------------------------------------------------------------------------------------


async def test_a_delivery_is_settled_once(app: App) -> None:
    orders = orders_of(app)
    errors: list[str] = []

    @orders.subscribe(group="audit", ack="manual", start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        await delivery.ack()
        for again in (delivery.ack(), delivery.reject("no"), delivery.retry(1)):
            with pytest.raises(AlreadySettled, match="is settled once") as raised:
                await again
            errors.append(str(raised.value))

    await placed(orders, 1)
    await drain(app)
    assert len(errors) == 3
    assert not await dead(app, "audit")


async def test_the_same_in_plain_functions(app: App) -> None:
    orders = orders_of(app)
    errors: list[AlreadySettled] = []

    @orders.subscribe(group="audit", ack="manual", start="beginning", retry=RetryPolicy.fixed(1, 0))
    def audit(delivery: Delivery[OrderPlaced]) -> None:
        if delivery.payload.order_id == 1:
            delivery.reject_sync("no")
        elif delivery.attempt == 1:
            delivery.retry_sync()
        else:
            delivery.ack_sync()
        with pytest.raises(AlreadySettled) as raised:
            delivery.ack_sync()
        errors.append(raised.value)

    await placed(orders, 1, 2)
    await drain(app)
    [letter] = await dead(app, "audit")
    assert (letter.reason, letter.error) == ("unrecoverable", "no")
    assert len(errors) == 3


async def test_the_plain_verbs_are_refused_on_the_event_loop(app: App) -> None:
    orders = orders_of(app)
    errors: list[ConfigurationError] = []

    @orders.subscribe(group="audit", ack="manual", start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        with pytest.raises(ConfigurationError, match="await ack") as raised:
            delivery.ack_sync()
        errors.append(raised.value)
        await delivery.ack()

    await placed(orders, 1)
    await drain(app)
    assert len(errors) == 1


async def test_a_plain_function_may_await_on_a_loop_of_its_own(app: App) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="audit", ack="manual", start="beginning")
    def audit(delivery: Delivery[OrderPlaced]) -> None:
        asyncio.run(delivery.ack())

    await placed(orders, 1)
    await drain(app)
    assert (await counts(app, "audit")).lag == 0


async def test_reject_and_retry(app: App, store: InterceptedStore) -> None:
    orders = orders_of(app)
    attempts: list[tuple[int, int]] = []

    @orders.subscribe(group="audit", ack="manual", retry=RetryPolicy.fixed(2, 5))
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        attempts.append((delivery.payload.order_id, delivery.attempt))
        if delivery.payload.order_id == 1:
            await delivery.reject("why")
        else:
            await delivery.retry(60)

    async with app.worker(lease=LONG):
        await placed(orders, 1, 2)
        [letter] = await until_dead(app, "audit")
        assert (letter.reason, letter.error, letter.payload) == ("unrecoverable", "why", letter.payload)
        for attempt in (2, 3):
            await wait_until(lambda: counts(app, "audit"))
            await wait_until(_retrying(app, "audit"))
            store.pass_time(61)
            await wait_until(lambda attempt=attempt: (2, attempt) in attempts)  # type: ignore[misc]
        letters = await until_dead(app, "audit", 2)
    assert {each.reason for each in letters} == {"unrecoverable", "exhausted"}
    assert attempts == [(1, 1), (2, 1), (2, 2), (2, 3)]


async def test_with_ack_success_a_handler_may_settle_early_and_what_it_raises_then_is_only_told(
    app: App, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit", start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        seen.append(delivery.attempt)
        await delivery.ack()
        raise ValueError("afterwards")

    await placed(orders, 1)
    await drain(app)
    assert seen == [1]
    assert len(of(signals.EventHandled, heard)) == 1
    assert [each.error for each in of(signals.EventFailed, heard)] == ["afterwards"]
    assert not of(signals.EventRetrying, heard)


async def test_a_manual_handler_that_settles_nothing_is_announced_and_its_event_comes_again(
    app: App, store: InterceptedStore, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit", ack="manual")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        seen.append(delivery.attempt)
        if delivery.attempt > 1:
            await delivery.ack()

    async with app.worker(lease=60):
        [id] = await placed(orders, 1)
        await wait_until(lambda: of(signals.EventUnsettled, heard))
        assert (await counts(app, "audit")).running == 1
        store.clock.advance(61)
        store.change_lease(group_stream("orders", "audit"), 59)
        await wait_until(lambda: seen == [1, 2])
        await until_done(app, "audit")
    [told] = of(signals.EventUnsettled, heard)
    assert (told.id, told.topic, told.group) == (id, "orders", "audit")
    assert [(each.id, each.crashes) for each in of(signals.EventRecovered, heard)] == [(id, 1)]


async def test_a_late_ack_within_the_lease_counts(app: App, heard: list[signals.Signal]) -> None:
    orders = orders_of(app)
    kept: list[Delivery[OrderPlaced]] = []

    @orders.subscribe(group="audit", ack="manual", max_in_flight=1)
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        kept.append(delivery)

    async with app.worker(lease=LONG):
        await placed(orders, 1, 2)
        await wait_until(lambda: len(kept) == 2)  # who is not settled does not hold up the next
        for delivery in kept:
            await delivery.ack()
        await until_done(app, "audit")
    assert len(of(signals.EventHandled, heard)) == 2


async def test_after_the_worker_has_stopped_nothing_can_be_settled(app: App) -> None:
    orders = orders_of(app)
    kept: list[Delivery[OrderPlaced]] = []

    @orders.subscribe(group="audit", ack="manual")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        kept.append(delivery)

    async with app.worker(lease=LONG):
        await placed(orders, 1)
        await wait_until(lambda: kept)
    with pytest.raises(AppClosed, match="its worker has stopped"):
        await asyncio.wait_for(kept[0].ack(), 10)


# --- on receipt ------------------------------------------------------------------------------------------


async def test_on_receipt_an_event_is_settled_before_it_is_handled_and_never_comes_again(
    app: App, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit", ack="receipt", start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        assert (await counts(app, "audit")).running == 0
        seen.append(delivery.payload.order_id)
        with pytest.raises(AlreadySettled):
            await delivery.ack()
        if delivery.payload.order_id == 1:
            raise ValueError("broken")

    await placed(orders, 1, 2)
    await drain(app)
    assert seen == [1, 2]
    assert len(of(signals.EventFailed, heard)) == len(of(signals.EventHandled, heard)) == 1
    assert not await dead(app, "audit")


async def test_what_no_handler_can_take_goes_to_the_dead_letters_also_with_receipt(
    app: App, store: InterceptedStore
) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="audit", ack="receipt", start="beginning")
    async def audit(order: OrderPlaced) -> None: ...

    await smuggle(store, b"\xc1 no message")
    await drain(app)
    [letter] = await dead(app, "audit")
    assert letter.reason == "undecodable"


async def test_receipts_are_written_when_the_store_is_back(app: App, store: InterceptedStore) -> None:
    orders = orders_of(app)
    settle, failures = store.settle, 3
    seen: list[int] = []

    @orders.subscribe(group="audit", ack="receipt", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async def flaky(settlements: Sequence[Settlement]) -> list[Verdict]:
        nonlocal failures
        failures -= 1
        if failures == 2:
            raise BackendUnavailable("away")
        if failures == 1:
            await settle(settlements)
            raise BackendUnavailable("the answer was lost", uncertain=True)
        return await settle(settlements)

    await placed(orders, 1, 2)
    store.intercept("settle", flaky)
    async with app.worker(lease=LONG):
        await wait_until(lambda: sorted(seen) == [1, 2])
        assert (await counts(app, "audit")).running == 0


async def test_what_was_received_is_handled_although_the_worker_stops(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    gate, seen = asyncio.Event(), list[int]()

    @orders.subscribe(group="audit", ack="receipt", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        await gate.wait()
        seen.append(order.order_id)

    await placed(orders, 1, 2, 3, 4)
    store.ahead = 3
    async with app.worker(concurrency=1, lease=LONG) as worker:
        await wait_until(lambda: worker.running == 1)
        stopping = asyncio.create_task(worker.stop())
        await wait_until(lambda: of(signals.WorkerStopping, heard))
        gate.set()
        await stopping
    assert seen == [1, 2, 3, 4]


# --- bounds ----------------------------------------------------------------------------------------------


async def test_max_in_flight_bounds_handlers_with_their_unwritten_acks(
    app: App, store: InterceptedStore
) -> None:
    orders = orders_of(app)
    settle = store.settle
    begun = written = most = 0
    gate = asyncio.Event()

    @orders.subscribe(group="audit", max_in_flight=3, start="beginning")
    async def audit(order: OrderPlaced) -> None:
        nonlocal begun
        begun += 1

    async def held_up(settlements: Sequence[Settlement]) -> list[Verdict]:
        nonlocal written, most
        most = max(most, begun - written)
        await gate.wait()
        verdicts = await settle(settlements)
        written += len(settlements)
        return verdicts

    store.intercept("settle", held_up)
    await placed(orders, *range(20))
    async with app.worker(lease=LONG):
        await wait_until(lambda: begun == 3)
        gate.set()
        await wait_until(lambda: written == 20)
    assert most == 3


async def test_a_handler_that_goes_on_after_its_ack_keeps_its_permit(app: App) -> None:
    orders = orders_of(app)
    gate, inside, most = asyncio.Event(), 0, 0

    @orders.subscribe(group="audit", ack="manual", max_in_flight=2, start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await delivery.ack()
        await gate.wait()
        inside -= 1

    await placed(orders, *range(6))
    async with app.worker(lease=LONG) as worker:
        await wait_until(lambda: worker.processed == 2)
        gate.set()
        await until_done(app, "audit")
    assert most == 2


async def test_permits_come_back_whatever_becomes_of_an_event(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    orders = orders_of(app)

    together = asyncio.Barrier(2)

    @orders.subscribe(group="audit", max_in_flight=2, retry=RetryPolicy.none())
    async def audit(order: OrderPlaced) -> None:
        match order.order_id % 4:
            case 0:
                raise ValueError("broken")
            case 1:
                raise Unrecoverable("no")
            case 3 if order.order_id >= 100:
                await together.wait()
            case _:
                pass

    async with app.worker(lease=LONG):
        await placed(orders, *range(12))
        await orders.publish(OrderPlaced(99), expires=60, delay=1)
        await smuggle(store, b"\xc1")
        clock.advance(120)
        store.pass_time(0)
        await until_done(app, "audit")
        await placed(orders, 103, 107)
        await until_done(app, "audit")  # both were handled at once


# --- failures --------------------------------------------------------------------------------------------


async def test_a_retry_goes_to_the_failing_group_alone_with_its_own_policy(
    app: App, store: InterceptedStore, heard: list[signals.Signal]
) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe(group="good")
    async def good(order: OrderPlaced) -> None:
        seen.append("good")

    @orders.subscribe(group="bad", retry=RetryPolicy.fixed(1, 3600))
    async def bad(delivery: Delivery[OrderPlaced]) -> None:
        seen.append(f"bad {delivery.attempt}")
        raise ValueError("broken")

    async with app.worker(lease=LONG):
        [id] = await placed(orders, 1)
        await wait_until(_retrying(app, "bad"))
        store.pass_time(3601)
        [letter] = await until_dead(app, "bad")
    assert sorted(seen) == ["bad 1", "bad 2", "good"]
    assert (letter.id, letter.reason, letter.error, letter.attempts) == (id, "exhausted", "broken", 2)
    assert not await dead(app, "good")
    [retrying] = of(signals.EventRetrying, heard)
    assert (retrying.group, retrying.delay, retrying.attempt) == ("bad", 3600.0, 1)
    [died] = of(signals.EventDied, heard)
    assert (died.topic, died.group, died.reason, died.attempt) == ("orders", "bad", "exhausted", 2)
    assert [each.attempt for each in of(signals.EventFailed, heard)] == [1, 2]


async def test_malformed_and_oversized_events_are_dead_with_their_bytes_and_the_reason(
    store: InterceptedStore,
) -> None:
    app = App(store=store, max_payload=100)
    orders = orders_of(app)
    handled: list[int] = []

    @orders.subscribe(group="audit", start="beginning", retry=RetryPolicy.fixed(5, 0))
    async def audit(order: OrderPlaced) -> None:
        handled.append(order.order_id)

    def body(payload: bytes) -> bytes:
        return encode_envelope(EventEnvelope(ENVELOPE_VERSION, "x", "X", 0, None, None, payload))

    await placed(orders, 1)
    for number, bad in enumerate([b"\xc1", body(b"\xa1x"), body(b"x" * 200), b"x" * 200_000]):
        await smuggle_numbered(store, bad, number)
    await drain(app)
    letters = {each.id: each for each in await dead(app, "audit")}
    assert [letters[f"bad-{n}"].reason for n in range(4)] == [
        "undecodable",
        "invalid",
        "oversized",
        "oversized",
    ]
    assert letters["bad-0"].payload == b"\xc1"
    assert handled == [1]
    await app.close()


async def smuggle_numbered(store: InterceptedStore, body: bytes, number: int) -> None:
    batch = Batch(Stream("topic", "orders"), f"smuggler-{number}", 1, [Message(f"bad-{number}", "?", body)])
    await store.append(batch)


# --- the worker's life -----------------------------------------------------------------------------------


async def test_shutdown_hands_events_back_and_spends_no_attempt(app: App) -> None:
    orders = orders_of(app)
    attempts: list[tuple[int, bool]] = []
    gate = asyncio.Event()

    @orders.subscribe(group="audit", start="beginning")
    async def audit(delivery: Delivery[OrderPlaced]) -> None:
        attempts.append((delivery.attempt, delivery.redelivered))
        await gate.wait()

    await placed(orders, 1)
    async with app.worker(grace=0, lease=LONG):
        await wait_until(lambda: attempts)
    assert (await counts(app, "audit")).lag == 1
    gate.set()
    await drain(app)
    assert attempts == [(1, False), (1, True)]


async def test_a_burst_drains_the_groups(app: App, clock: MovableClock) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)
        if order.order_id < 5:
            await orders.publish(OrderPlaced(order.order_id + 1))

    await placed(orders, 1)
    await orders.publish(OrderPlaced(100), delay=10)
    clock.advance(20)
    await drain(app)
    assert sorted(seen) == [1, 2, 3, 4, 5, 100]


async def test_a_burst_waits_for_delayed_events_that_are_due(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    orders = orders_of(app)
    promote, calls, seen = store.promote, 0, list[int]()

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async def late(sources: Sequence[Stream], *, limit: int) -> Promoted:
        nonlocal calls
        calls += 1
        return Promoted(0, 100_000) if calls == 1 else await promote(sources, limit=limit)

    store.intercept("promote", late)
    await orders.publish(OrderPlaced(1), delay=10)
    clock.advance(20)
    await drain(app)
    assert seen == [1]


async def test_a_worker_for_some_topics_and_some_queues(app: App) -> None:
    orders, bills = orders_of(app), app.topic("bills", int)
    seen: list[str] = []

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None:
        seen.append("order")

    @bills.subscribe(group="audit", start="beginning")
    async def audit_bills(bill: int) -> None:
        seen.append("bill")

    @app.task(name="job")
    async def job() -> None:
        seen.append("job")

    await placed(orders, 1)
    await bills.publish(1)
    await job.enqueue()
    await app.worker(queues=[], topics=["orders"]).run(burst=True)
    assert seen == ["order"]
    await app.worker(topics=[]).run(burst=True)
    assert seen == ["order", "job"]
    await app.worker(queues=["default"], topics=["bills"]).run(burst=True)
    assert seen == ["order", "job", "bill"]
    with pytest.raises(ConfigurationError, match="nothing in this app is subscribed to bilsl"):
        app.worker(topics=["bilsl"])
    with pytest.raises(ConfigurationError, match="topics must be a list"):
        app.worker(topics="orders")
    with pytest.raises(ConfigurationError, match="queues must be a list"):
        app.worker(queues=[], topics=[])


async def test_a_worker_of_topics_alone_says_when_it_last_polled(app: App) -> None:
    orders = orders_of(app)

    @orders.subscribe(group="audit")
    async def audit(order: OrderPlaced) -> None: ...

    async with app.worker(queues=[]) as worker:
        await placed(orders, 1)
        await wait_until(lambda: worker.last_poll > 0)


async def test_a_worker_that_cannot_begin_leaves_nothing_running(app: App) -> None:
    orders = orders_of(app)
    await placed(orders, 1)

    @orders.subscribe(group="billing")
    async def bill(order: OrderPlaced) -> None: ...

    @orders.subscribe(group="audit", start="0" * 26)
    async def audit(order: OrderPlaced) -> None: ...

    before = asyncio.all_tasks()
    worker = app.worker()
    with pytest.raises(UnknownEvent, match="holds no event"):
        await worker.__aenter__()
    assert asyncio.all_tasks() == before
    assert worker.running == 0


async def test_a_worker_waits_a_while_for_a_store_that_is_away(app: App, store: InterceptedStore) -> None:
    orders = orders_of(app)
    join, failures = store.join, 2

    @orders.subscribe(group="audit", start="beginning")
    async def audit(order: OrderPlaced) -> None: ...

    async def flaky(*args: object, **kwargs: object) -> bool:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise BackendUnavailable("away", uncertain=True, transient=True)
        return await join(*args, **kwargs)  # type: ignore[arg-type]

    store.intercept("join", flaky)
    async with app.worker():
        await placed(orders, 1)
        await until_done(app, "audit")


async def test_a_removed_group_is_left_in_peace_until_it_is_joined_again(
    app: App, store: InterceptedStore
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe(group="audit")
    async def audit(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    async with app.worker():
        await placed(orders, 1)
        await wait_until(lambda: seen == [1])
        assert await app.admin.remove_group("orders", "audit")
        await placed(orders, 2)
    assert await group_of(app, "audit") is None
    async with app.worker():
        await placed(orders, 3)
        await wait_until(lambda: seen == [1, 3])


async def test_start_new_beginning_an_event_or_a_time(app: App, clock: MovableClock) -> None:
    from datetime import UTC, datetime

    orders = orders_of(app)
    first, second = await placed(orders, 1, 2)
    clock.advance(3600)
    since = datetime.fromtimestamp(clock.now_us() / 1e6, UTC)
    await placed(orders, 3)
    seen: dict[str, list[int]] = {"new": [], "beginning": [], "event": [], "time": []}

    def follow(group: str, start: str | datetime) -> None:
        @orders.subscribe(group=group, start=start)
        async def handle(order: OrderPlaced) -> None:
            seen[group].append(order.order_id)

    follow("new", "new")
    follow("beginning", "beginning")
    follow("event", second)
    follow("time", since)
    async with app.worker(lease=LONG):
        await placed(orders, 4)
        await until_done(app, *seen)
    assert seen == {"new": [4], "beginning": [1, 2, 3, 4], "event": [2, 3, 4], "time": [3, 4]}
    await orders.replay(group="new", since=first)
    await drain(app)
    assert seen["new"] == [4, 1, 2, 3, 4]
    with pytest.raises(
        ConfigurationError, match="has no group 'nobody': a group is there once a worker has served it"
    ):
        await orders.replay(group="nobody")


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_replay_skips_nothing_that_the_group_has_not_handled_yet(app: App, partitions: int) -> None:
    orders = app.topic("orders", OrderPlaced, partitions=partitions)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(order: OrderPlaced) -> None:
        seen.append(order.order_id)

    await placed(orders, 1)
    await drain(app)
    *_, last = await placed(orders, *range(2, 10))
    await orders.replay(group="billing", since=last)
    await orders.replay(group="billing", since=datetime.now(UTC) + timedelta(hours=1))
    await drain(app)
    assert sorted(seen) == list(range(1, 10))


def _retrying(app: App, group: str):  # type: ignore[no-untyped-def]
    async def is_retrying() -> bool:
        return (await counts(app, group)).retrying == 1

    return is_retrying


async def test_an_acknowledgement_on_its_way_is_no_lost_lease(store: InterceptedStore) -> None:
    """The store has written it and says so to a renewal. The handler waits for its own answer."""
    app = App(store=store, clock=store.clock)
    orders = orders_of(app)
    lost: list[signals.LeaseLost] = []
    app.on(signals.LeaseLost)(lost.append)
    written, answered, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @orders.subscribe("billing", start="beginning", ack="manual")
    async def bill(delivery: Delivery[OrderPlaced]) -> None:
        await delivery.ack()
        ended.set()

    settle = store.settle

    async def settle_slowly(settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await settle(settlements)
        written.set()
        await answered.wait()
        return verdicts

    store.intercept("settle", settle_slowly)
    (id,) = await placed(orders, 1)
    async with app.worker(lease=0.1):
        await written.wait()
        store.lost.add(id)
        renewals = len(store.renewed)
        await wait_until(lambda: len(store.renewed) >= renewals + 2)
        answered.set()
        await asyncio.wait_for(ended.wait(), 10)
        await until_done(app, "billing")
    assert not lost
    await app.close()
