"""Unique keys and expiry: a message that has expired gives up its key."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.core.messages.message import FRESH, TrailEntry, UniqueKey
from headrace.core.messages.outcome import Expired, Outcome, Released, Snoozed
from headrace.core.records.answers import Answer, CancelAnswer, ReplayAnswer, Wanted
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.core.schedules.schedule_record import advance, establish
from headrace.testing.contract.kit.stand import HOUR_US, Stand, retry

from .kinds import FINISHED, every_kind, owner_of


async def _expired(stand: Stand, unique: UniqueKey, delay: float = 0) -> str:
    """A message that holds the key and has expired."""
    id = await stand.add(unique=unique, lifetime=30, delay=delay)
    await stand.advance(31 + delay)
    return id


@every_kind
@pytest.mark.parametrize("delay", [0, 10], ids=["queued", "scheduled"])
async def test_an_expired_owner_gives_its_key_to_the_next_message(
    stand: Stand, unique: UniqueKey, delay: float
) -> None:
    owner = await _expired(stand, unique, delay=delay)
    waiter = asyncio.create_task((await stand.other()).wait_for_end(stand.stream, owner, 10))
    following = await stand.add(unique=unique)
    record = await waiter
    assert record is not None
    assert record.status is await stand.status(owner) is JobStatus.EXPIRED
    assert await owner_of(stand, unique) == following
    await stand.promote()
    assert await stand.claim_ids() == [following]
    assert (await stand.counts()).queued == 0


async def test_a_waiter_for_an_expired_owner_is_woken_when_its_key_is_taken(stand: Stand) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    other = await stand.other()
    waiter = asyncio.create_task(other.wait_for_end(stand.stream, owner, 10))
    assert await other.wait_for_end(stand.stream, owner, 0.1) is None  # by now the first one waits as well
    await stand.advance(31)
    await stand.add(unique=FINISHED)
    record = await waiter
    assert record is not None
    assert record.status is JobStatus.EXPIRED


async def test_the_end_record_of_an_expired_owner_stays_as_long_as_the_next_message_says(
    stand: Stand,
) -> None:
    owner = await _expired(stand, FINISHED)
    following = msgspec.structs.replace(stand.message(unique=FINISHED), expired_ttl_us=microseconds(60))
    await stand.append(following)
    await stand.advance(50)
    assert await stand.status(owner) is JobStatus.EXPIRED
    await stand.advance(11)
    assert await stand.status(owner) is JobStatus.UNKNOWN


@every_kind
async def test_a_message_that_is_settled_as_expired_gives_up_its_key(stand: Stand, unique: UniqueKey) -> None:
    claim = await stand.running(unique=unique)
    await stand.settle(claim, Expired(HOUR_US))
    await stand.add(unique=unique)


@pytest.mark.parametrize(
    "outcome",
    [
        retry(),
        Snoozed(FRESH.snoozed(TrailEntry(1, "snoozed", "worker-1")), microseconds(10)),
        Released(FRESH.released(TrailEntry(2, "released", "worker-1", began_us=1))),
    ],
    ids=["retry", "snoozed", "released"],
)
async def test_an_owner_that_was_begun_in_time_keeps_its_key(stand: Stand, outcome: Outcome) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    claim = await stand.claim_one(owner)
    await stand.advance(31)
    assert await owner_of(stand, FINISHED) == owner
    await stand.settle(claim, outcome)
    assert await owner_of(stand, FINISHED) == owner
    assert await stand.status(owner) is not JobStatus.EXPIRED


async def test_an_owner_that_was_handed_back_unbegun_gives_up_its_key(stand: Stand) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    unbegun = Released(FRESH.released(TrailEntry(1, "released", "worker-1")))
    await stand.settle(await stand.claim_one(owner), unbegun)
    await stand.advance(31)
    await stand.add(unique=FINISHED)
    assert await stand.status(owner) is JobStatus.EXPIRED


@pytest.mark.whole("a limit holds for each part")
async def test_an_expired_owner_makes_room_for_the_next_message(stand: Stand) -> None:
    await _expired(stand, FINISHED)
    first, second = stand.message(unique=FINISHED), stand.message()
    assert await stand.append(first, second, limit=1) == [Answer(first.id), Answer(second.id, "full")]


@pytest.mark.whole("a message with a key is in the part of its key")
async def test_the_id_of_an_expired_owner_stays_known_in_the_batch_that_takes_its_key(stand: Stand) -> None:
    owner = await _expired(stand, FINISHED)
    following, repeated = stand.message(unique=FINISHED), stand.message(owner)
    answers = await stand.backend.append(stand.batch(following, repeated))
    assert [answer.verdict for answer in answers] == ["accepted", "duplicate"]


@pytest.mark.whole("a limit holds for each part")
async def test_a_message_that_is_refused_because_it_is_full_leaves_the_expired_owner(stand: Stand) -> None:
    owner = await _expired(stand, FINISHED)
    await stand.add()
    refused = stand.message(unique=FINISHED)
    assert await stand.append(refused, limit=1) == [Answer(refused.id, "full")]
    assert (await stand.counts()).queued == 2
    assert await stand.status(owner) is JobStatus.EXPIRED


async def test_a_replayed_message_takes_its_key_from_an_expired_owner(stand: Stand) -> None:
    letter = await stand.running(unique=FINISHED)
    await stand.die(letter)
    owner = await _expired(stand, FINISHED)
    assert await stand.backend.replay(stand.stream, [letter.id]) == [ReplayAnswer.REPLAYED]
    assert await stand.status(owner) is JobStatus.EXPIRED
    assert await stand.claim_ids() == [letter.id]


async def test_a_schedule_takes_the_key_from_an_expired_owner(stand: Stand) -> None:
    owner = await _expired(stand, FINISHED)
    await stand.backend.swap_schedules([establish(stand.stream, "nightly")])
    [record] = (await stand.backend.schedules([stand.stream])).records
    await stand.advance(1)
    message = stand.message(unique=FINISHED)
    [fired] = await stand.backend.swap_schedules([advance(record, record.last_us + 1, [message])])
    assert fired.done
    assert await stand.status(message.id) is JobStatus.QUEUED
    assert await stand.status(owner) is JobStatus.EXPIRED


async def test_an_expired_owner_from_before_a_split_holds_up_no_message(stand: Stand) -> None:
    owner = await _expired(stand, FINISHED)
    await stand.split(5)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [None]
    following = await stand.add(unique=FINISHED)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [following]
    assert await stand.status(owner) is JobStatus.EXPIRED


async def test_what_waits_past_its_expiry_is_seen_as_expired(stand: Stand) -> None:
    queued, scheduled = await stand.add(lifetime=30), await stand.add(lifetime=30, delay=10)
    lasting = await stand.add()
    await stand.advance(41)
    for id in (queued, scheduled):
        record = await stand.look(id)
        assert record.status is JobStatus.EXPIRED
        assert record.ended_us
        assert not record.due_us
        assert (await stand.backend.wait_for_end(stand.stream, id, 10)) == record
        assert await stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US) is CancelAnswer.GONE
    page = await stand.backend.messages(stand.stream)
    assert {record.id: record.status for record in page} == {
        queued: JobStatus.EXPIRED,
        scheduled: JobStatus.EXPIRED,
        lasting: JobStatus.QUEUED,
    }
    for status in JobStatus:
        page = await stand.backend.messages(stand.stream, status=status)
        assert [record.id for record in page] == ([lasting] if status is JobStatus.QUEUED else [])


async def test_what_waits_past_its_expiry_is_expired_also_after_a_purge(stand: Stand) -> None:
    ids = [await stand.add(lifetime=30), await stand.add(lifetime=30, delay=10), await stand.add()]
    await stand.advance(41)
    assert await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=100) == 3
    assert [await stand.status(id) for id in ids] == [*[JobStatus.EXPIRED] * 2, JobStatus.CANCELLED]
