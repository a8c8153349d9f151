"""What is said of parts, as it is heard of the whole: listings, workers, orders, schedules, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from headrace.core.errors import ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import FRESH, Batch, Message, Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Dead, DeadReason, Done, Failure, Settlement
from headrace.core.records.answers import DeadFilter
from headrace.core.records.control import CancelNotice, ControlMessage, DueNotice, PauseNotice
from headrace.core.records.record import Counts, JobStatus, WorkerInfo
from headrace.core.rules.layout import Generation, generation_of, part_stream, parts_of, whole_stream
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.core.schedules.schedule_record import advance, establish
from headrace.engine.streams import StreamRouter
from headrace.engine.streams.routing import hash_of
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until

QUEUE = Stream("queue", "emails")
SOURCE = QUEUE
DAY = 24 * 3600.0


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def store() -> SharedState:
    return SharedState()


@pytest.fixture
async def backend(store: SharedState, clock: MovableClock) -> StreamRouter:
    backend = StreamRouter(MemoryStore(store, name="", clock=clock))
    await backend.split(QUEUE, 3)
    await backend.declare_stream(SOURCE, microseconds(30))
    return backend


async def add(backend: StreamRouter, number: int, *, delay: float = 0) -> list[str]:
    messages = [
        Message(new_id(), "greet", b"", delay_us=microseconds(delay), fresh=True) for _ in range(number)
    ]
    await backend.append(Batch(QUEUE, new_id(), 1, messages))
    return [message.id for message in messages]


# --- names --------------------------------------------------------------------------------------------------


def test_parts_have_names_that_lead_back() -> None:
    assert part_stream(QUEUE, 1, 3) == Stream("queue", "emails#1.3")
    assert part_stream(group_stream("orders", "billing"), 2, 0) == Stream("group", "orders#2.0/billing")
    assert part_stream(QUEUE, 0, 0) == QUEUE
    for stream in (QUEUE, Stream("topic", "orders"), group_stream("orders", "billing")):
        assert {whole_stream(part) for part in parts_of(stream, Generation(4, 5))} == {stream}
        assert {generation_of(part) for part in parts_of(stream, Generation(14, 5))} == {14}
        assert whole_stream(stream) is stream
        assert generation_of(stream) == 0


def test_the_hash_is_the_same_for_ever() -> None:
    """What lies in a part was put there by it."""
    assert [hash_of(text) for text in ("", "a", "order-1")] == [0, 3904355907, 3769860079]


# --- listings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_leave_nothing_out_and_show_nothing_twice(backend: StreamRouter, limit: int) -> None:
    ids = await add(backend, 20)
    await backend.split(QUEUE, 2)
    ids += await add(backend, 20, delay=60)
    listed: list[str] = []
    cursor: str | None = None
    while True:
        page = await backend.messages(QUEUE, cursor=cursor, limit=limit)
        assert len(page) <= limit
        assert {record.stream for record in page} <= {QUEUE}
        listed += [record.id for record in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(listed) == sorted(ids)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_dead_letters_are_listed_the_latest_first_over_all_parts(
    backend: StreamRouter, clock: MovableClock, limit: int
) -> None:
    died: list[str] = []
    for number in range(24):
        [id] = await add(backend, 1)
        [claim] = await backend.claim([SOURCE], consumer="w", limit=1, suspects=0, wait=0)
        outcome = Dead(FRESH, DeadReason.EXHAUSTED, Failure("E", "no"))
        await backend.settle([Settlement(claim, outcome)])
        died.append(id)
        clock.advance(number % 3)
        if number == 12:
            await backend.split(QUEUE, 5)
    listed: list[str] = []
    cursor: str | None = None
    while True:
        page = await backend.dead_letters(QUEUE, only=DeadFilter(), cursor=cursor, limit=limit)
        assert {letter.queue for letter in page} <= {"emails"}
        assert len(page) <= limit
        listed += [letter.id for letter in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert listed == died[::-1]


async def test_a_cursor_that_no_page_gave_is_refused(backend: StreamRouter) -> None:
    for cursor in ("nonsense", "====", "é"):
        with pytest.raises(ConfigurationError, match="is no cursor of this listing"):
            await backend.dead_letters(QUEUE, only=DeadFilter(), cursor=cursor)
        with pytest.raises(ConfigurationError, match="is no cursor of this listing"):
            await backend.messages(QUEUE, cursor=cursor)


async def test_streams_and_workers_are_named_by_the_whole(backend: StreamRouter) -> None:
    await add(backend, 30)
    assert await backend.streams() == [QUEUE]
    worker = WorkerInfo("w", "host", 1, 1, queues=("emails", "other"), concurrency=1)
    control = await beat(backend, worker)
    assert control.leases == {QUEUE: microseconds(30)}
    assert await backend.workers() == [worker]
    await backend.pause(QUEUE, paused=True)
    assert (await beat(backend, worker)).paused == {QUEUE}


# --- claims and orders --------------------------------------------------------------------------------------


async def test_a_claim_of_a_part_is_one_of_the_whole(backend: StreamRouter) -> None:
    await add(backend, 30)
    claims = await backend.claim([SOURCE], consumer="w", limit=30, suspects=0, wait=0)
    assert {claim.whole for claim in claims} == {QUEUE}
    assert {claim.stream for claim in claims} == set(parts_of(QUEUE, Generation(1, 3)))
    assert len(await backend.lease_keeper().renew(claims)) == 30
    # Another process settles what this one has claimed, without having met the queue.
    other = StreamRouter(backend.store)
    await other.settle([Settlement(claim, Done()) for claim in claims])
    assert (await backend.counts(QUEUE)).running == 0


async def test_a_claim_of_a_part_keeps_all_that_the_store_filled_in() -> None:
    store = InterceptedStore()
    backend = StreamRouter(store)
    await backend.split(QUEUE, 3)
    handed_out: list[Claim] = []
    claim = store.claim

    async def unreadable(*args: Any, **kwargs: Any) -> list[Claim]:
        handed_out[:] = [replace(each, unreadable="torn") for each in await claim(*args, **kwargs)]
        return handed_out

    store.intercept("claim", unreadable)
    await add(backend, 1)
    [claimed] = await backend.claim([SOURCE], consumer="w", limit=1, suspects=0, wait=0)
    [filled_in] = handed_out
    assert (claimed.part_of, filled_in.part_of) == (QUEUE, None)
    assert asdict(replace(claimed, part_of=None)) == asdict(filled_in)


async def test_orders_are_heard_of_the_whole_and_once(backend: StreamRouter) -> None:
    heard: list[ControlMessage] = []
    stop = backend.listen(heard.append)
    [id] = await add(backend, 1)
    await backend.claim([SOURCE], consumer="w", limit=1, suspects=0, wait=0)
    await backend.cancel(QUEUE, id, ttl_us=1)
    await backend.pause(QUEUE, paused=True)
    await add(backend, 1, delay=60)
    await wait_until(lambda: len(heard) >= 3)
    await asyncio.sleep(0)
    assert heard == [CancelNotice(QUEUE, id), PauseNotice(QUEUE, paused=True), DueNotice(QUEUE)]
    stop()


async def test_a_claim_that_waits_is_led_to_the_new_parts(store: SharedState, backend: StreamRouter) -> None:
    stop = backend.listen(lambda order: None)

    async def claim_until_something_comes() -> list[str]:
        while True:
            claims = await backend.claim([SOURCE], consumer="w", limit=9, suspects=0, wait=50)
            if claims:
                return [claim.id for claim in claims]

    waiting = asyncio.create_task(claim_until_something_comes())
    await wait_until(lambda: any(stream_state.waiters for stream_state in store.stream_states.values()))
    other = StreamRouter(backend.store)
    await other.split(QUEUE, 5)
    [id] = await add(other, 1)
    assert await asyncio.wait_for(waiting, 10) == [id]
    stop()


# --- schedules ----------------------------------------------------------------------------------------------


async def test_a_schedule_fires_and_heeds_what_the_parts_hold(
    backend: StreamRouter, clock: MovableClock
) -> None:
    key = UniqueKey("nightly")
    await backend.append(Batch(QUEUE, "p", 1, [Message("running", "greet", b"", unique=key)]))
    await backend.swap_schedules([establish(QUEUE, "nightly")])
    clock.advance(60)
    for number in (1, 2):
        [record] = (await backend.schedules([QUEUE])).records
        message = Message(f"fired-{number}", "greet", b"", unique=key)
        [fired] = await backend.swap_schedules([advance(record, record.last_us + 1, [message])])
        assert fired.done
        [claim] = await backend.claim([SOURCE], consumer="w", limit=9, suspects=0, wait=0)
        assert claim.id == ("running" if number == 1 else "fired-2")
        await backend.settle([Settlement(claim, Done())])


# --- the end of a generation --------------------------------------------------------------------------------


async def test_a_generation_is_forgotten_when_it_is_empty_and_long_sealed(
    store: SharedState, backend: StreamRouter, clock: MovableClock
) -> None:
    [id] = await add(backend, 1)
    await backend.split(QUEUE, 2)

    async def numbers_after(days: float) -> list[int]:
        clock.advance(days * DAY)
        backend._forgetting._looked_at = None
        await backend.prune(limit=100)
        return [each.number for each in (await backend.layout(QUEUE)).generations]

    assert await numbers_after(6) == [0, 1, 2]
    assert await numbers_after(2) == [0, 1, 2]  # something is in it
    await backend.cancel(QUEUE, id, ttl_us=0)
    store.stream_state(QUEUE).sealed = False  # as after a failover that took it back
    assert await numbers_after(0) == [0, 2]
    assert store.stream_state(QUEUE).sealed
    # A process that does not know the new layout yet may wait there, and would create the parts again.
    assert await numbers_after(0) == [0, 2]
    assert any("#1." in stream.name for stream in store.stream_states)
    assert await numbers_after(0) == [0, 2]
    assert not any("#1." in stream.name for stream in store.stream_states)
    assert (await backend.counts(QUEUE)).queued == 0
    [id] = await add(backend, 1)
    record = await backend.get(QUEUE, id)
    assert record is not None
    assert record.status is JobStatus.QUEUED


@pytest.mark.parametrize("seed", range(20))
async def test_a_page_stays_in_place_while_letters_come_and_go(
    backend: StreamRouter, clock: MovableClock, seed: int
) -> None:
    """Whichever parts they are in."""

    async def die() -> str:
        [id] = await add(backend, 1)
        [claim] = await backend.claim([SOURCE], consumer="w", limit=1, suspects=0, wait=0)
        await backend.settle([Settlement(claim, Dead(FRESH, DeadReason.EXHAUSTED, Failure("E", "no")))])
        clock.advance(1)
        return id

    ids = [await die() for _ in range(9)]
    page = await backend.dead_letters(QUEUE, only=DeadFilter(), limit=3)
    assert [letter.id for letter in page] == ids[:5:-1]
    await backend.discard(QUEUE, [ids[8], ids[6]])
    for _ in range(4):
        await die()
    rest = await backend.dead_letters(QUEUE, only=DeadFilter(), cursor=page.cursor, limit=3)
    assert [letter.id for letter in rest] == [ids[5], ids[4], ids[3]]


async def test_a_part_is_paused_as_the_stream_is_whoever_pauses_it_meanwhile() -> None:
    """One process brings the parts up to date. It has read that the stream is not paused; then another
    process pauses the stream with its parts."""
    store = InterceptedStore()
    new, operator = StreamRouter(store), StreamRouter(store.for_other_loop())
    await operator.split(QUEUE, 2)
    paused = asyncio.Event()
    counts = store.counts

    async def between(stream: Stream) -> Counts:
        if stream != QUEUE:
            await paused.wait()
        found = await counts(stream)
        if not paused.is_set():
            await operator.pause(QUEUE, paused=True)
            paused.set()
        return found

    store.intercept("counts", between)
    await new.declare_stream(SOURCE, microseconds(30))
    assert [(await counts(part)).paused for part in parts_of(QUEUE, Generation(1, 2))] == [True, True]
