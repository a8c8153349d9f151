"""What arrives and cannot be run: an outcome like any other, with the bytes and the reason kept."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator

import msgspec
import pytest

from headrace import App, JobFailed, JobStatus, PayloadTooLarge, signals
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import ENVELOPE_VERSION, Batch, Envelope, Message, Stream, encode_envelope
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of, until

QUEUE = Stream("queue", "default")


class Strict(msgspec.Struct):
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise KeyError("a bug in the constructor")


@pytest.fixture
async def app(store: InterceptedStore) -> AsyncIterator[App]:
    async with App(store=store, clock=store.clock) as app:
        yield app


@pytest.fixture
async def producer(store: InterceptedStore) -> AsyncIterator[App]:
    """Another process, with other ideas of the tasks."""
    async with App(store=store.for_other_loop(), clock=store.clock) as producer:
        yield producer


async def put(store: InterceptedStore, body: bytes, *, task: str = "see") -> str:
    """Store a message as it is."""
    id = new_id()
    await store.append(Batch(QUEUE, new_id(), 1, [Message(id, task, body)]))
    return id


# --- arguments -----------------------------------------------------------------------------------------


async def test_arguments_that_do_not_validate_are_dead_with_reason_and_bytes(
    app: App, producer: App, heard: list[signals.Signal]
) -> None:
    ran: list[int] = []

    @producer.task(name="see")
    async def old_see(n: str) -> None: ...

    @app.task(name="see")
    async def see(n: int) -> int:
        ran.append(n)
        return n

    job = await old_see.enqueue("seven")
    await drain(app)
    assert ran == []
    (letter,) = await app.admin.dead()
    assert (letter.id, letter.task, letter.queue, letter.reason) == (job.id, "see", "default", "invalid")
    assert "Expected `int`, got `str` - at `n`" in letter.error
    assert msgspec.msgpack.decode(letter.payload) == [["seven"]]
    with pytest.raises(JobFailed, match="Expected `int`"):
        await app.job(job.id).result()
    (died,) = of(signals.JobDied, heard)
    assert (died.reason, died.id) == ("invalid", job.id)


async def test_a_type_that_blows_up_when_it_is_made_harms_its_job_alone(app: App, producer: App) -> None:
    @producer.task(name="see")
    async def old_see(value: dict[str, int]) -> None: ...

    @app.task(name="see")
    async def see(value: Strict) -> int:
        return value.value

    bad, good = await old_see.enqueue({"value": -1}), await old_see.enqueue({"value": 1})
    await drain(app, concurrency=1)
    (letter,) = await app.admin.dead()
    assert (letter.id, letter.reason) == (bad.id, "invalid")
    assert "a bug in the constructor" in letter.error
    assert await app.job(good.id).result() == 1


async def test_a_dead_letter_can_be_given_other_arguments_and_replayed(app: App, producer: App) -> None:
    @producer.task(name="see")
    async def old_see(n: str) -> None: ...

    @app.task(name="see")
    async def see(n: int) -> int:
        return n

    job = await old_see.enqueue("seven")
    await drain(app)
    assert await app.admin.edit(job.id, args=[7])
    assert await app.admin.replay(ids=[job.id]) == 1
    await drain(app)
    assert await app.job(job.id).result() == 7


# --- bytes ---------------------------------------------------------------------------------------------

NOT_TEXT = encode_envelope(Envelope(ENVELOPE_VERSION, "id", "see", 0, None, None, b"")).replace(
    b"see", b"\xff" * 3
)
DEEP = functools.reduce(lambda inner, _: b"\x91" + inner, range(20_000), b"\x01")


@pytest.mark.parametrize("body", [b"", b"garbage", b"\xc1", NOT_TEXT, DEEP, msgspec.msgpack.encode({"a": 1})])
async def test_bytes_that_are_no_message_are_dead_with_the_bytes_kept(
    app: App, store: InterceptedStore, body: bytes
) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    id = await put(store, body)
    good = await see.enqueue()
    await drain(app, concurrency=1)
    (letter,) = await app.admin.dead()
    assert (letter.id, letter.reason, letter.payload) == (id, "undecodable", body)
    assert await good.result() == 1


async def test_a_payload_over_the_limit_is_refused_where_it_is_sent() -> None:
    async with App("memory://", max_payload=1000) as app:

        @app.task(name="see")
        async def see(text: str) -> int:
            return len(text)

        with pytest.raises(PayloadTooLarge, match=r"the arguments of see have 1,00\d bytes"):
            await see.enqueue("x" * 1000)
        assert await app.admin.queues() == []
        job = await see.enqueue("x" * 990)
        await drain(app)
        assert await job.result() == 990


async def test_headers_over_the_limit_are_refused_where_they_are_sent(app: App) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    with pytest.raises(PayloadTooLarge, match="the headers of a call of see"):
        await see.with_(headers={"large": "x" * 70_000}).enqueue()
    await see.with_(headers={"large": "x" * 60_000}).enqueue()
    await drain(app)
    assert len(await app.admin.dead()) == 0


async def test_a_payload_over_the_limit_is_dead_where_it_arrives(
    store: InterceptedStore, producer: App
) -> None:
    async with App(store=store, max_payload=1000) as app:

        @producer.task(name="see")
        async def old_see(text: str) -> None: ...

        @app.task(name="see")
        async def see(text: str) -> int:
            return len(text)

        large, huge = await old_see.enqueue("x" * 2000), await old_see.enqueue("x" * 100_000)
        await drain(app)
        letters = {letter.id: letter for letter in await app.admin.dead()}
        assert {letter.reason for letter in letters.values()} == {"oversized"}
        assert "the payload has 2,005 bytes, more than 1,000" in letters[large.id].error
        assert len(letters[huge.id].payload) > 100_000


# --- names and versions --------------------------------------------------------------------------------


async def test_an_unknown_task_is_handed_back_until_somebody_knows_it(
    app: App, producer: App, clock: MovableClock
) -> None:
    @producer.task(name="new")
    async def new(n: int) -> int:
        return n

    job = await new.enqueue(7)
    async with app.worker(lease=LONG):
        await until(job, JobStatus.SCHEDULED)
    info = await job.info()
    assert info.attempts == 0
    assert info.releases >= 1  # more when the machine stands still before the worker stops
    assert info.trail[-1].what == "unknown"
    assert "no task called 'new' is registered here" in info.error
    clock.advance(60)
    await drain(producer)
    assert await job.result() == 7


async def test_an_unknown_task_comes_back_less_and_less_often_and_is_dead_after_an_hour(
    app: App, store: InterceptedStore, producer: App, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    @producer.task(name="new")
    async def new(n: int) -> int:
        return n

    job = await new.enqueue(7)
    delays: list[float] = []
    async with app.worker(lease=LONG):
        while await job.status() is not JobStatus.DEAD:
            await until(job, JobStatus.SCHEDULED)
            due = (await job.info()).due_at
            assert due is not None
            delay = due.timestamp() - clock.now_us() / 1e6
            delays.append(delay)
            releases = (await job.info()).releases
            store.pass_time(delay + 0.001)
            await wait_until(functools.partial(_moved_on, app, job.id, releases))
    assert delays[:7] == pytest.approx([1, 2, 4, 8, 16, 32, 60], abs=0.5)
    assert set(map(round, delays[6:])) == {60}
    assert 3500 < sum(delays) < 3700
    (letter,) = await app.admin.dead()
    assert letter.reason == "unknown_task"
    assert msgspec.msgpack.decode(letter.payload) == [[7]]
    (died,) = of(signals.JobDied, heard)
    assert died.reason == "unknown_task"


async def _moved_on(app: App, id: str, releases: int) -> bool:
    info = await app.job(id).info()
    return info.releases > releases or info.status is JobStatus.DEAD


@pytest.mark.parametrize("known_layout", [True, False])
async def test_a_message_of_a_later_version_is_handed_back_too(
    app: App, store: InterceptedStore, known_layout: bool
) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    later = ENVELOPE_VERSION + 1
    if known_layout:
        body = encode_envelope(Envelope(later, "id", "see", 1, None, None, b"\x91\x90"))
    else:
        body = msgspec.msgpack.encode([later, {"a": "layout of its own"}])
    id = await put(store, body)
    async with app.worker():
        await until(app.job(id), JobStatus.SCHEDULED)
    assert f"the message has version {later}" in (await app.job(id).info()).error


async def test_a_burst_does_not_wait_for_what_was_handed_back(app: App, producer: App) -> None:
    @producer.task(name="new")
    async def new(n: int) -> int:
        return n

    job = await new.enqueue(7)
    await drain(app)
    assert await job.status() is JobStatus.SCHEDULED
