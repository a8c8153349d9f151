"""Signed and encrypted messages: what an app does with them, wherever payloads go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from headrace import (
    App,
    Delivery,
    EncryptedCodec,
    Event,
    InvalidPayload,
    JobStatus,
    PayloadTooLarge,
    RetryPolicy,
    SignedCodec,
    current_job,
    signals,
)
from headrace.core.crypto.keys import new_key
from headrace.core.messages.event_envelope import decode_event
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, decode_envelope, encode_envelope
from headrace.core.runtime.clock import MovableClock
from headrace.core.schedules.schedule_record import add as add_schedule
from headrace.engine.streams import StreamRouter
from headrace.testing import memory
from tests.support.routers import opened_router
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of

KEY, NEW = new_key(), new_key()
DEFAULT = Stream("queue", "default")

Make = Callable[[Any], SignedCodec | EncryptedCodec]


class OrderPlaced(msgspec.Struct):
    order_id: int
    card: str = "4111 1111"


@pytest.fixture(params=[SignedCodec, EncryptedCodec])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def url() -> str:
    return f"memory://{new_id()}"


@pytest.fixture
async def app(make: Make, url: str) -> AsyncIterator[App]:
    async with App(url, codec=make(KEY), retry=RetryPolicy.none()) as app:
        yield app


@pytest.fixture
async def store(url: str) -> AsyncIterator[StreamRouter]:
    """The store, as another program with access to it has it."""
    async with opened_router(url) as store:
        yield store


async def body_of(store: StreamRouter, id: str, stream: Stream = DEFAULT) -> bytes:
    record = await store.get(stream, id)
    assert record is not None
    assert record.body is not None
    return record.body


async def append(store: StreamRouter, id: str, task: str, body: bytes, stream: Stream = DEFAULT) -> None:
    """Write a message as another program with access to the store can."""
    await store.append(Batch(stream, new_id(), 1, [Message(id, task, body)]))


# --- jobs -------------------------------------------------------------------------------------------------


async def test_jobs_run_as_without_it(app: App) -> None:
    @app.task(name="plain")
    async def plain() -> int:
        return 1

    @app.task(name="thread")
    def thread(a: int, *, b: int = 2) -> tuple[int, str, str]:
        job = current_job()
        return a + b, job.id, job.headers["source"]

    first = await plain.enqueue()
    second = await thread.with_(headers={"source": "web"}, job_id="mine", priority="high").enqueue(1, b=3)
    many = await app.enqueue_many([plain.call(), plain.call(), thread.with_(headers={"source": "x"}).call(5)])
    await drain(app)
    assert await first.result() == 1
    assert await second.result() == (4, "mine", "web")
    assert [await job.result() for job in many] == [1, 1, (7, many[2].id, "x")]


async def test_only_an_encrypted_store_hides_what_was_sent(app: App, make: Make, store: StreamRouter) -> None:
    @app.task(name="echo")
    async def echo(text: str) -> str:
        return text

    job = await echo.enqueue("secret")
    stored = await body_of(store, job.id)
    assert b"echo" in stored
    await drain(app)
    record = await store.get(DEFAULT, job.id)
    assert record is not None
    assert record.result is not None
    for data in (stored, record.result):
        assert (b"secret" in data) is (make is SignedCodec)


async def test_an_unsigned_message_is_dead_with_its_bytes(app: App, url: str, store: StreamRouter) -> None:
    ran: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> None:
        ran.append(n)

    async with App(url) as plain:

        @plain.task(name="see")
        async def old_see(n: int) -> None: ...

        job = await old_see.enqueue(7)
        stored = await body_of(store, job.id)
    await drain(app)
    (letter,) = await app.admin.dead(reason="unverified")
    assert (letter.id, letter.payload) == (job.id, decode_envelope(stored).payload)
    assert letter.error is not None
    assert "the payload is not" in letter.error
    assert not ran


async def test_a_payload_is_valid_in_its_own_message_only(app: App, store: StreamRouter) -> None:
    ran: list[str] = []

    @app.task(name="pay")
    async def pay(who: str) -> None:
        ran.append(who)

    @app.task(name="fine")
    async def fine(who: str) -> None:
        ran.append(f"fine {who}")

    job = await pay.with_(headers={"by": "ada"}, delay=60).enqueue("ada")
    body = await body_of(store, job.id)
    envelope = decode_envelope(body)
    change = msgspec.structs.replace
    await append(store, "other id", "pay", encode_envelope(change(envelope, id="other id")))
    await append(store, "whole copy", "pay", body)
    await append(store, "other task", "fine", encode_envelope(change(envelope, id="other task", task="fine")))
    other = encode_envelope(change(envelope, headers={"by": "eve"}))
    assert await store.rewrite(DEFAULT, job.id, other)
    await app.admin.retry_now(job.id)
    await drain(app)
    dead = await app.admin.dead()
    assert {letter.id for letter in dead} == {"other id", "whole copy", "other task", job.id}
    assert {letter.reason for letter in dead} == {"unverified"}
    assert not ran


async def test_a_whole_message_that_is_sent_again_cannot_be_told_from_a_repeat(
    app: App, store: StreamRouter
) -> None:
    """SECURITY.md says so."""
    ran: list[str] = []

    @app.task(name="pay")
    async def pay(who: str) -> None:
        ran.append(who)

    job = await pay.enqueue("ada")
    body = await body_of(store, job.id)
    await drain(app)
    await append(store, job.id, "pay", body)
    await drain(app)
    assert ran == ["ada", "ada"]


async def test_a_result_belongs_to_its_job(app: App, url: str, make: Make, store: StreamRouter) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    job = await double.enqueue(1)
    await drain(app)
    async with App(url, codec=make(KEY)) as reader:  # it does not know the task
        assert await reader.job(job.id).result() == 2
    record = await store.get(DEFAULT, job.id)
    assert record is not None
    assert record.result is not None
    lookup = app._jobs.lookup
    for id, task in (("another", "double"), (job.id, "other"), (job.id, "")):
        with pytest.raises(InvalidPayload):
            lookup.decoded_result(id, task, record.result)
    sent = await body_of(store, (await double.enqueue(2)).id)
    with pytest.raises(InvalidPayload):  # arguments are no result
        lookup.decoded_result(job.id, "double", decode_envelope(sent).payload)
    async with App(url) as stranger:
        with pytest.raises(InvalidPayload):
            await stranger.job(job.id).result()


async def test_the_limit_is_for_what_is_stored(make: Make, url: str) -> None:
    async with App(url, codec=make(KEY), max_payload=100) as app:
        topic = app.topic("orders", str)

        @app.task(name="size")
        async def size(text: str) -> int:
            return len(text)

        await size.enqueue("x" * 40)
        for refused in (size.enqueue("x" * 95), topic.publish("x" * 95)):
            with pytest.raises(PayloadTooLarge, match="more than the 100 allowed"):
                await refused


async def test_equal_arguments_are_one_unique_job(app: App, make: Make) -> None:
    @app.task(name="see", unique=True)
    async def see(phone: str) -> str:
        return phone

    first = await see.enqueue("555")
    assert (await see.enqueue("555")).id == first.id
    assert (await see.enqueue("556")).id != first.id
    info = await first.info()
    async with App("memory://", codec=make(NEW)) as other:

        @other.task(name="see", unique=True)
        async def see_too(phone: str) -> str:
            return phone

        told = (await (await see_too.enqueue("555")).info()).unique_key
    # Without the key, an encrypted argument cannot be guessed from its fingerprint.
    assert (told == info.unique_key) is (make is SignedCodec)


async def test_dead_letters_run_once_the_key_is_there(app: App, make: Make, url: str) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await see.enqueue(7)
    async with App(url, codec=make(NEW)) as late:

        @late.task(name="see")
        async def late_see(n: int) -> int:
            return n

        await drain(late)
        (letter,) = await late.admin.dead()
        assert letter.error is not None
        assert f"with key {KEY.split('_')[1]}, which this app does not have" in letter.error
    async with App(url, codec=make([NEW, KEY])) as mended:

        @mended.task(name="see")
        async def mended_see(n: int) -> int:
            return n

        assert await mended.admin.replay(reason="unverified") == 1
        await drain(mended)
        assert await mended.job(job.id).result() == 7


async def test_an_edit_is_signed_too(app: App) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await see.with_(delay=60, headers={"a": "b"}).enqueue(1)
    assert await app.admin.edit(job.id, args=[2])
    await app.admin.retry_now(job.id)
    await drain(app)
    assert await job.result() == 2


async def test_an_edit_does_not_sign_what_somebody_else_wrote(app: App, store: StreamRouter) -> None:
    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await see.with_(delay=60).enqueue(1)
    envelope = decode_envelope(await body_of(store, job.id))
    forged = encode_envelope(msgspec.structs.replace(envelope, headers={"by": "eve"}))
    assert await store.rewrite(DEFAULT, job.id, forged)
    with pytest.raises(InvalidPayload, match="cannot be edited"):
        await app.admin.edit(job.id, args=[2])


async def test_what_does_not_fit_can_be_edited(app: App, make: Make, url: str) -> None:
    async with App(url, codec=make(KEY)) as old:

        @old.task(name="see")
        async def old_see(n: str) -> int:
            return 0

        job = await old_see.enqueue("one")

    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    await drain(app)
    (letter,) = await app.admin.dead()
    assert letter.reason == "invalid"
    assert await app.admin.edit(job.id, args=[1])
    await app.admin.replay(ids=[job.id])
    await drain(app)
    assert await app.job(job.id).result() == 1


async def test_middleware_sees_the_arguments(app: App) -> None:
    seen: list[tuple[Any, ...]] = []

    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    async def watch(run: Any, call_next: Any) -> object:
        seen.append((run.args, run.kwargs))
        return await call_next(run)

    app.use(watch)
    job = await see.enqueue(n=3)
    await drain(app)
    assert await job.result() == 3
    assert seen == [((3,), {})]


# --- looking ----------------------------------------------------------------------------------------------


async def test_contents_are_read_with_the_codec_only(app: App, make: Make, url: str) -> None:
    @app.task(name="see")
    async def see(text: str) -> None: ...

    topic = app.topic("orders", OrderPlaced)
    job = await see.with_(headers={"a": "b"}).enqueue("hello")
    await topic.publish(OrderPlaced(7))
    contents = await app.admin.contents(job.id)
    assert contents is not None
    assert (contents.args, contents.problem) == (("hello",), "")
    [event] = [event async for event in app.admin.tail("orders", since="beginning", follow=False)]
    assert (event.payload["order_id"], event.problem) == (7, "")
    form = "signed" if make is SignedCodec else "encrypted"
    async with App(url) as stranger:
        contents = await stranger.admin.contents(job.id)
        assert contents is not None
        assert (contents.args, contents.headers) == ((), {"a": "b"})
        assert f"it is {form}, and no codec is known here" in contents.problem
        [event] = [event async for event in stranger.admin.tail("orders", since="beginning", follow=False)]
        assert (event.payload, event.kind) == (None, "OrderPlaced")
        assert f"it is {form}" in event.problem
    async with App(url, codec=make(NEW)) as other:
        contents = await other.admin.contents(job.id)
        assert contents is not None
        assert "which this app does not have" in contents.problem


async def test_a_message_that_was_changed_is_not_shown_as_genuine(app: App, store: StreamRouter) -> None:
    @app.task(name="see")
    async def see(text: str) -> None: ...

    body = await body_of(store, (await see.enqueue("hello")).id)
    await append(store, "copy", "see", body)
    contents = await app.admin.contents("copy")
    assert contents is not None
    assert "written under another id" in contents.problem


async def test_the_kit_reads_what_was_sent(make: Make) -> None:
    app = App("memory://", codec=make(KEY))
    topic = app.topic("orders", OrderPlaced)

    @app.task(name="see")
    async def see(text: str) -> str:
        return text

    with memory(app) as kit:
        await see.enqueue("hello")
        await topic.publish(OrderPlaced(7))
        [job] = kit.enqueued()
        assert job.args == ("hello",)
        [event] = kit.published()
        assert event.payload == OrderPlaced(7)


# --- events -----------------------------------------------------------------------------------------------


async def test_events_reach_every_kind_of_handler(app: App) -> None:
    topic = app.topic("shop.orders", OrderPlaced)
    got: list[Any] = []

    @topic.subscribe(group="payload", start="beginning")
    async def payload(event: OrderPlaced) -> None:
        got.append(("payload", event.order_id))

    @topic.subscribe(group="event", start="beginning")
    def event(event: Event[OrderPlaced]) -> None:
        got.append(("event", event.payload.order_id, event.key, event.headers["a"], event.source))

    @topic.subscribe(group="delivery", ack="manual", start="beginning")
    async def delivery(delivery: Delivery[OrderPlaced]) -> None:
        got.append(("delivery", delivery.payload.order_id))
        await delivery.ack()

    @topic.subscribe(group="batch", batch=10, start="beginning")
    async def batch(events: list[OrderPlaced]) -> None:
        got.append(("batch", [event.order_id for event in events]))

    @app.topics("shop.*", OrderPlaced).subscribe(group="pattern", start="beginning")
    async def pattern(event: OrderPlaced) -> None:
        got.append(("pattern", event.order_id))

    await topic.publish(OrderPlaced(7), key="k", headers={"a": "b"}, source="web", correlation_id="c")
    await drain(app)
    assert sorted(got, key=str) == [
        ("batch", [7]),
        ("delivery", 7),
        ("event", 7, "k", "b", "web"),
        ("pattern", 7),
        ("payload", 7),
    ]


async def test_fan_outs_and_feeds_get_them_too(app: App) -> None:
    topic = app.topic("orders", OrderPlaced)
    got: list[Any] = []

    @topic.subscribe(fan_out=True)
    async def refresh(event: OrderPlaced) -> None:
        got.append(event.order_id)

    @app.task(name="fed")
    async def fed(order: OrderPlaced) -> None:
        got.append(("fed", order.order_id))

    topic.feed(fed)
    async with app.worker():
        await topic.publish(OrderPlaced(7))
        await wait_until(lambda: len(got) == 2)
    assert set(got) == {7, ("fed", 7)}


async def test_parts_of_queues_and_topics_change_nothing(app: App) -> None:
    app.queue("mails", partitions=3)
    topic = app.topic("orders", OrderPlaced, partitions=3)
    got: list[int] = []

    @app.task(name="mail", queue="mails")
    async def mail(n: int) -> int:
        return n

    @topic.subscribe(group="billing", start="beginning", ordered=True)
    async def bill(event: OrderPlaced) -> None:
        if event.order_id == 7:
            raise ValueError("no")
        got.append(event.order_id)

    jobs = await app.enqueue_many([mail.call(n) for n in range(10)])
    await topic.publish_many([topic.message(OrderPlaced(n), key=str(n % 3)) for n in range(10)])
    await app.schedules.add("daily", mail.call(11), every=3600)
    jobs.append(await app.schedules.run_now("daily"))
    await drain(app)
    assert [await job.result() for job in jobs] == [*range(10), 11]
    assert sorted(got) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    [letter] = await app.admin.dead()
    contents = await app.admin.contents(letter.id, topic="orders", group="billing")
    assert contents is not None
    assert contents.event is not None
    assert (contents.event.payload["order_id"], contents.problem) == (7, "")


@pytest.mark.parametrize(
    "change",
    [
        {"task": "OrderPaid"},
        {"headers": {"by": "eve"}},
        {"key": "other"},
        {"source": "eve"},
        {"enqueued_us": 1},
        {"schema_version": 2},
        {"correlation_id": "x"},
        {"id": "other"},
        {"payload": b"\x81\xa8order_id\x07"},
    ],
)
async def test_no_field_of_an_event_can_be_changed(
    app: App, change: dict[str, Any], store: StreamRouter
) -> None:
    topic = app.topic("orders", OrderPlaced)
    other = app.topic("others", OrderPlaced)

    @topic.subscribe(group="billing", start="beginning")
    async def bill(event: OrderPlaced) -> None:
        raise AssertionError("it ran")

    @other.subscribe(group="billing", start="beginning")
    async def bill_other(event: OrderPlaced) -> None:
        raise AssertionError("it ran")

    [published] = [topic.encoder.encode(topic.message(OrderPlaced(7)), ("", ""))]
    event = decode_event(published.body)
    changed = encode_envelope(msgspec.structs.replace(event, **change))
    await other.publish(OrderPlaced(1))  # declares both topics
    await topic.publish(OrderPlaced(1))
    await drain_dead(app)
    await append(store, published.id, "OrderPlaced", changed, Stream("topic", "orders"))
    await append(store, published.id, "OrderPlaced", published.body, Stream("topic", "others"))
    await drain(app)
    dead = [letter for letter in await app.admin.dead() if letter.id == published.id]
    assert [(letter.topic, letter.reason) for letter in dead] == [
        ("orders", "unverified"),
        ("others", "unverified"),
    ]


async def drain_dead(app: App) -> None:
    await drain(app)
    await app.admin.discard(reason="exhausted")


# --- schedules --------------------------------------------------------------------------------------------


async def test_schedules_of_the_code_sign_each_job(make: Make, url: str) -> None:
    clock = MovableClock()
    got: list[int] = []
    async with App(url, codec=make(KEY), clock=clock) as app:

        @app.every(10)
        @app.task(name="tick")
        async def tick(n: int = 3) -> None:
            got.append(n)

        app.every(10)(tick)  # as a module that is imported twice
        job = await app.schedules.run_now("tick")
        async with app.worker(lease=LONG) as worker:
            await wait_until(lambda: got == [3])
            await wait_until(lambda: worker._parts.intake.schedule_runner._with_records)
            clock.advance(10)
            worker._parts.intake.schedule_runner.poke()
            await wait_until(lambda: got == [3, 3])
        assert await job.status() is not JobStatus.DEAD
        assert not list(await app.admin.dead())


async def test_schedules_of_the_store_are_bound_to_their_name_and_time(
    make: Make, url: str, store: StreamRouter
) -> None:
    clock = MovableClock()
    got: list[str] = []
    heard: list[signals.BackendError] = []
    async with App(url, codec=make(KEY), clock=clock) as app:

        @app.task(name="report")
        async def report(of: str) -> None:
            got.append(of)

        app.on(signals.BackendError)(heard.append)
        await app.schedules.add("daily", report.call("secret"), every=10)
        await app.schedules.put("daily", report.call("secret"), every=10)
        [record] = (await store.schedules([DEFAULT])).records
        assert record.definition is not None
        assert (b"secret" in record.definition) is (make is SignedCodec)
        # An attacker copies the definition under another name, and makes it more frequent.
        await forge(store, "copied", record.definition)
        await forge(store, "hasty", record.definition.replace(b"daily", b"hasty"))
        async with app.worker(lease=LONG) as worker:
            await wait_until(lambda: of(signals.BackendError, heard))
            clock.advance(10)
            worker._parts.intake.schedule_runner.poke()
            await wait_until(lambda: got == ["secret"])
        for name in ("copied", "hasty"):
            assert any(f"schedule {name}: UnverifiedPayload" in error.error for error in heard)
        assert not list(await app.admin.dead())
        with pytest.raises(InvalidPayload, match="'hasty' cannot be read"):
            await app.schedules.run_now("hasty")
        assert {info.name for info in await app.schedules.list()} == {"daily", "copied", "hasty"}
    async with App(url) as stranger:
        with pytest.raises(InvalidPayload, match="use an app with its codec"):
            await stranger.schedules.run_now("daily")


async def forge(store: StreamRouter, name: str, definition: bytes) -> None:
    [swapped] = await store.swap_schedules([add_schedule(DEFAULT, name, definition)])
    assert swapped.done


async def test_putting_a_schedule_again_signs_it_with_the_new_key(make: Make, url: str) -> None:
    async def put(keys: list[str]) -> None:
        async with App(url, codec=make(keys)) as app:

            @app.task(name="report")
            async def report(of: str) -> None: ...

            await app.schedules.put("daily", report.call("sales"), every=10)

    await put([KEY])
    await put([NEW, KEY])
    await put([NEW])
    async with App(url, codec=make(NEW)) as app:
        assert await (await app.schedules.run_now("daily")).status() is JobStatus.QUEUED
