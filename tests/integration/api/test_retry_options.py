"""Which errors are retried, and what listeners and handlers get of a job."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from headrace import (
    App,
    ConfigurationError,
    DeadLetter,
    Delivery,
    Event,
    Published,
    QueueFull,
    Refused,
    RetryLater,
    RetryPolicy,
    current_job,
    signals,
)
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until


class BusyLine(ConnectionError):
    pass


class WrongNumber(BusyLine):
    pass


async def failures(app: App, error: type[Exception], policy: RetryPolicy) -> DeadLetter:
    """The dead letter of a job that always fails with this error, under this policy of its call."""

    @app.task(name="call", result_ttl=0)
    async def call() -> None:
        raise error("no")

    await call.with_(retry=policy).enqueue()
    await app.worker().run(burst=True)
    [letter] = await app.admin.dead()
    return letter


@pytest.mark.parametrize(
    ("error", "attempts", "reason"),
    [
        (BusyLine, 3, "exhausted"),
        (ConnectionError, 3, "exhausted"),
        (WrongNumber, 1, "unrecoverable"),
        (ValueError, 1, "unrecoverable"),
        (RetryLater, 3, "exhausted"),
    ],
)
async def test_a_stored_policy_retries_the_errors_that_it_names(
    make_app: MakeApp, error: type[Exception], attempts: int, reason: str
) -> None:
    def raised(text: str) -> Exception:
        return RetryLater(0, text) if error is RetryLater else error(text)

    policy = RetryPolicy.fixed(2, 0, on=ConnectionError, give_up_on=[WrongNumber])
    letter = await failures(make_app(), raised, policy)  # type: ignore[arg-type]
    assert (letter.attempts, letter.reason) == (attempts, reason)


async def test_a_policy_of_the_task_names_errors_too(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(retry=RetryPolicy.exponential(3, 0.0, on=(BusyLine, TimeoutError)))
    async def call() -> int:
        raise TimeoutError if current_job().attempt == 1 else KeyError("no such line")

    await call.enqueue()
    await app.worker().run(burst=True)
    [letter] = await app.admin.dead()
    assert (letter.attempts, letter.error_type) == (2, "KeyError")


async def test_the_signal_of_a_death_carries_the_dead_letter(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.none())
    died: list[signals.JobDied] = []
    app.on(signals.JobDied)(died.append)

    @app.task(name="charge")
    async def charge(customer: int) -> int:
        raise ValueError("no such customer")

    job = await charge.enqueue(7)
    await app.worker().run(burst=True)
    [signal], [stored] = died, await app.admin.dead()
    letter = signal.dead_letter
    assert (letter.id, letter.task, letter.queue) == (job.id, "charge", "default")
    assert (letter.error, letter.error_type, letter.reason) == ("no such customer", "ValueError", "exhausted")
    assert letter.traceback == signal.traceback == stored.traceback
    assert (letter.attempts, letter.payload) == (stored.attempts, stored.payload) == (1, letter.payload)
    assert msgspec.msgpack.decode(letter.payload) == [[7]]
    assert abs((letter.died_at - stored.died_at).total_seconds()) < 5


async def test_a_handler_sees_the_raw_bytes_of_its_arguments(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def raw(text: str, *, number: int) -> bytes:
        return current_job().payload

    async with app.worker():
        job = await raw.enqueue("x", number=3)
        assert msgspec.msgpack.decode(await job.result(timeout=10)) == [["x"], {"number": 3}]


async def test_a_delivery_is_retried_for_a_reason(make_app: MakeApp) -> None:
    app = make_app(retry=RetryPolicy.fixed(1, 0))
    orders = app.topic("orders", int)
    heard: list[signals.Signal] = []
    app.on(signals.EventRetrying)(heard.append)
    over = asyncio.Event()

    @orders.subscribe(group="billing", ack="manual")
    async def bill(delivery: Delivery[int]) -> None:
        if delivery.attempt == 2:
            over.set()
        await delivery.retry(0, reason="the register is closed")

    async with app.worker():
        await orders.publish(7)
        await asyncio.wait_for(over.wait(), 10)
    [letter] = await app.admin.dead(topic="orders", group="billing")
    assert letter.error == "the register is closed"
    [retrying] = heard
    assert isinstance(retrying, signals.EventRetrying)
    assert "the register is closed" in retrying.why


async def test_an_event_says_when_it_occurred_and_what_its_payload_is(make_app: MakeApp) -> None:
    app = make_app()
    pictures = app.topic("pictures", bytes)
    got: asyncio.Queue[Event[bytes]] = asyncio.Queue()
    handled: list[signals.EventHandled] = []
    app.on(signals.EventHandled)(handled.append)

    @pictures.subscribe(group="gallery")
    async def show(event: Event[bytes]) -> None:
        got.put_nowait(event)

    taken_at = datetime(2020, 2, 29, 12, 0, 0, 5, tzinfo=UTC)
    async with app.worker():
        await pictures.publish(b"png", occurred_at=taken_at, content_type="image/png")
        await pictures.publish(b"x")
        events = [await asyncio.wait_for(got.get(), 10) for _ in range(2)]
    dated, plain = sorted(events, key=lambda event: event.occurred_at)
    assert (dated.occurred_at, dated.content_type) == (taken_at, "image/png")
    assert plain.content_type == "application/msgpack"
    assert abs((datetime.now(UTC) - plain.occurred_at).total_seconds()) < 60
    # How long it waited counts from its publication.
    assert all(signal.waited < 60 for signal in handled)


async def test_a_full_topic_refuses_events(make_app: MakeApp) -> None:
    app = make_app()
    orders = app.topic("orders", int, max_length=3, overflow="refuse")
    outcomes = await orders.publish_many(range(5))
    assert [type(each) for each in outcomes] == [Published] * 3 + [Refused] * 2
    with pytest.raises(QueueFull, match="its groups have not drawn them"):
        await orders.publish(6)
    got: list[int] = []

    @orders.subscribe("billing", start="beginning")
    async def bill(order: int) -> None:
        got.append(order)

    async with app.worker():
        await wait_until(lambda: len(got) == 3)
        await orders.publish(7)
        await wait_until(lambda: got == [0, 1, 2, 7])


def test_wrong_overflows_are_refused() -> None:
    app = App("memory://")
    with pytest.raises(ConfigurationError, match="write max_length=10_000"):
        app.topic("a", int, overflow="refuse")
    with pytest.raises(ConfigurationError, match="overflow must be 'drop_oldest' or 'refuse'"):
        app.topic("a", int, overflow="drop")  # type: ignore[call-overload]
