"""Relays: what a feed forwards reaches its queue once, whatever fails, and is seen while it waits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from headrace import App, signals
from headrace.admin import OutboxInfo
from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.messages.message import Batch, Message, Stream, group_stream
from headrace.core.messages.outcome import Settlement, Verdict
from headrace.core.messages.outgoing import Outgoing
from headrace.core.outbox.outbox import OutgoingBatch, OutgoingEntry, Refusal
from headrace.core.records.answers import Answer
from headrace.engine.relaying.relay import HOLD
from tests.support.doctor_findings import OK, WARN, examined
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.events.orders import OrderPlaced, orders_of, placed
from tests.unit.behaviour.work import LONG, drain, of

FEED = group_stream("orders", "feed:bill")


def fed(app: App) -> list[int]:
    """A topic that feeds a task, and the orders that the task has billed."""
    billed: list[int] = []

    @app.task(name="bill", queue="bills")
    async def bill(order: OrderPlaced) -> None:
        billed.append(order.order_id)

    orders_of(app).feed(bill, start="beginning")
    return billed


async def test_jobs_of_a_feed_keep_the_order_of_the_events(app: App) -> None:
    billed = fed(app)
    await placed(orders_of(app), *range(700))
    await drain(app, concurrency=1)
    assert billed == list(range(700))
    assert await app.admin.outboxes() == []


async def test_a_relay_that_dies_after_its_append_makes_no_second_job(
    app: App, store: InterceptedStore
) -> None:
    billed = fed(app)
    await placed(orders_of(app), 1)

    async def die(batch: OutgoingBatch, *, kept: object = ()) -> None:
        raise BackendUnavailable("the relay was killed here", uncertain=True)

    store.intercept("hand_on", die)
    async with app.worker(lease=LONG):
        await wait_until(lambda: billed == [1])
    assert [(each.name, each.waiting) for each in await app.admin.outboxes()] == [("orders/feed:bill", 1)]
    store.restore("hand_on")
    store.clock.advance(HOLD / 1e6 + 1)
    await placed(orders_of(app), 2)
    await drain(app)
    assert billed == [1, 2]
    assert await app.admin.outboxes() == []


async def test_a_relay_that_was_overtaken_appends_nothing(app: App, store: InterceptedStore) -> None:
    """It took a batch, slept through its hold, and others have gone on."""
    billed = fed(app)
    await placed(orders_of(app), 1)
    slept: list[Batch] = []
    append = store.append

    async def sleep(batch: Batch) -> list[Answer]:
        if batch.producer.startswith("outbox:") and not slept:
            slept.append(batch)
            raise BackendUnavailable("it sleeps here")
        return await append(batch)

    store.intercept("append", sleep)
    await drain(app)
    await placed(orders_of(app), 2)
    await drain(app)
    with pytest.raises(BackendUnavailable, match="overtaken"):
        await append(slept[0])
    await drain(app)
    assert billed == [1, 2]


async def test_a_relay_backs_off_while_the_target_is_away(app: App, store: InterceptedStore) -> None:
    billed, errors = fed(app), list[signals.BackendError]()
    app.on(signals.BackendError)(errors.append)
    orders = orders_of(app)
    append = store.append

    async def away(batch: Batch) -> list[Answer]:
        if batch.stream.kind == "queue":
            raise BackendUnavailable("away")
        return await append(batch)

    store.intercept("append", away)
    await placed(orders, 1)
    async with app.worker(lease=LONG):
        await wait_until(lambda: len([each for each in errors if each.service == "relay"]) > 2)
        [outbox] = await app.admin.outboxes()
        assert (outbox.name, outbox.waiting, outbox.relays) == ("orders/feed:bill", 1, 1)
        store.restore("append")
        await wait_until(lambda: billed == [1])


async def test_an_event_whose_settlement_is_lost_starts_no_job(app: App, store: InterceptedStore) -> None:
    billed = fed(app)
    settle = store.settle
    refused: list[Settlement] = []

    async def lose(settlements: list[Settlement]) -> list[Verdict]:
        if not refused and settlements[0].forwards:
            refused.extend(settlements)
            return [Verdict.LOST] * len(settlements)
        return await settle(settlements)

    store.intercept("settle", lose)
    await placed(orders_of(app), 1)
    async with app.worker(lease=LONG):
        await wait_until(lambda: bool(refused))
    assert (await app.admin.outboxes(), billed) == ([], [])


async def test_a_message_that_the_store_refuses_is_a_dead_letter_and_holds_no_other_up(
    app: App, store: InterceptedStore
) -> None:
    billed, died = fed(app), list[signals.JobDied]()
    app.on(signals.JobDied)(died.append)
    append = store.append

    async def refuse(batch: Batch) -> list[Answer]:
        if batch.stream.name == "bills" and any(b"\x02" in message.body[-3:] for message in batch.messages):
            raise RequestRefused("the content of one cannot be stored")
        return await append(batch)

    store.intercept("append", refuse)
    await placed(orders_of(app), 1, 2, 3)
    await drain(app, concurrency=1)
    assert billed == [1, 3]
    [letter] = await app.admin.dead(queue="bills", reason="refused")
    assert "cannot be stored" in letter.error
    assert [signal.reason for signal in died] == ["refused"]


async def test_a_job_that_dies_in_the_relay_is_reported_once(app: App, store: InterceptedStore) -> None:
    fed(app)
    reports: list[tuple[str, str]] = []

    @app.task(name="report")
    async def report(id: str, task: str, queue: str, reason: str, error: str) -> None:
        reports.append((task, reason))

    app.queue("bills", on_dead=report)
    append, bury, buried = store.append, store.bury, list[str]()

    async def refuse(batch: Batch) -> list[Answer]:
        if batch.stream.name == "bills":
            raise RequestRefused("its content cannot be stored")
        return await append(batch)

    async def lose_the_answer(stream: Stream, refusals: Sequence[Refusal]) -> None:
        await bury(stream, refusals)
        buried.append(stream.name)
        if len(buried) == 1:
            raise BackendUnavailable("the answer was lost", uncertain=True)

    store.intercept("append", refuse)
    store.intercept("bury", lose_the_answer)
    await placed(orders_of(app), 1)
    await drain(app)
    assert len(buried) == 2
    assert reports == [("bill", "refused")]


async def test_a_content_that_cannot_be_read_is_a_dead_letter(app: App, store: InterceptedStore) -> None:
    billed = fed(app)
    await placed(orders_of(app), 1)
    take = store.take_outgoing

    async def damage(*args: object, **options: object) -> list[OutgoingBatch]:
        batches = await take(*args, **options)  # type: ignore[arg-type]
        return [
            OutgoingBatch(batch.origin, batch.producer, batch.number, (OutgoingEntry(b"\xc1", 0),))
            for batch in batches
        ]

    store.intercept("take_outgoing", damage)
    await drain(app)
    assert billed == []
    [letter] = await app.admin.dead(topic="orders", group="feed:bill", reason="undecodable")
    assert letter.payload == b"\xc1"


async def test_accepted_jobs_are_announced(app: App, heard: list[signals.Signal]) -> None:
    fed(app)
    await placed(orders_of(app), 1)
    await drain(app)
    [enqueued] = of(signals.JobEnqueued, heard)
    assert (enqueued.task, enqueued.queue, enqueued.duplicate) == ("bill", "bills", False)


async def test_the_delay_and_the_lifetime_count_in_the_outbox() -> None:
    message = Message("a", "bill", b"", delay_us=10, lifetime_us=100, fresh=True)
    outgoing = Outgoing(Stream("queue", "bills"), message)
    assert not outgoing.aged(0).fresh
    assert (outgoing.aged(4).delay_us, outgoing.aged(4).lifetime_us) == (6, 100)
    assert (outgoing.aged(40).delay_us, outgoing.aged(40).lifetime_us) == (0, 70)
    assert outgoing.aged(1000).lifetime_us == 1  # it expires at once


async def test_an_app_without_outboxes_has_no_relay(app: App, store: InterceptedStore) -> None:
    taken = store.watch("take_outgoing")

    @app.task
    async def add() -> None: ...

    await add.enqueue()
    await drain(app)
    assert taken.made == []
    assert not app.has_outboxes


# --- looking -----------------------------------------------------------------------------------------------


async def forwarded(app: App, store: InterceptedStore) -> None:
    """One message in the outbox, that no worker has relayed."""
    fed(app)
    await placed(orders_of(app), 1)

    async def nothing(*args: object, **options: object) -> list[OutgoingBatch]:
        return []

    store.intercept("take_outgoing", nothing)
    async with app.worker(lease=LONG):
        await wait_until(lambda: _waits(app))
    store.restore("take_outgoing")


async def _waits(app: App) -> bool:
    return any(each.waiting for each in await app.admin.outboxes())


async def test_the_doctor_warns_of_an_outbox_that_no_process_relays(
    app: App, store: InterceptedStore
) -> None:
    await forwarded(app, store)
    store.clock.advance(30)
    [outbox] = await app.admin.outboxes()
    assert msgspec.structs.replace(outbox, lag=0.0) == OutboxInfo("orders/feed:bill", 1, relays=0)
    assert outbox.lag == pytest.approx(30, abs=5)
    found = await examined(app)
    assert found.level("outboxes") == WARN
    assert "no process relays it: orders/feed:bill (1)" in found["outboxes"].text
    async with app.relay():

        async def is_relayed() -> bool:
            return not await app.admin.outboxes() and any(
                each.relays == ("orders/feed:bill",) for each in await app.admin.workers()
            )

        await wait_until(is_relayed)
        assert all(finding.name != "outboxes" for finding in (await examined(app)).all)


async def test_the_doctor_warns_of_an_outbox_that_is_late(app: App, store: InterceptedStore) -> None:
    await forwarded(app, store)
    store.clock.advance(301)

    async def nothing(*args: object, **options: object) -> list[OutgoingBatch]:
        return []

    store.intercept("take_outgoing", nothing)
    async with app.relay():

        async def is_announced() -> bool:
            return any(each.relays for each in await app.admin.workers())

        await wait_until(is_announced)
        found = await examined(app)
    assert found.level("outboxes") == WARN
    assert "do not keep up" in found["outboxes"].text
    assert found.level("workers") == OK


async def test_a_topic_with_parts_feeds_a_queue_with_parts(app: App) -> None:
    """Each part of the group has an outbox of its own, and each key keeps its order."""
    orders = app.topic("orders", OrderPlaced, partitions=3)
    app.queue("bills", partitions=2)
    billed: list[int] = []

    @app.task(name="bill", queue="bills")
    async def bill(order: OrderPlaced) -> None:
        billed.append(order.order_id)

    orders.feed(bill, start="beginning")
    await orders.publish_many([orders.message(OrderPlaced(n), key=str(n % 5)) for n in range(50)])
    await drain(app)
    assert sorted(billed) == list(range(50))
    assert await app.admin.outboxes() == []
