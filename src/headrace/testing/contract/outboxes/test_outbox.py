"""What a settlement forwards: written with the outcome, taken by relays in batches, gone when handed on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Outcome,
    Released,
    Settlement,
    Verdict,
)
from headrace.core.messages.outgoing import Outgoing, decode_outgoing
from headrace.core.outbox.outbox import OUTGOING_BYTES, OutgoingBatch, Refusal
from headrace.core.records.answers import DeadFilter, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.stand import (
    FAILURE,
    HOUR_US,
    Stand,
    dead,
    kept,
    queue_and_group,
    retry,
)

MAILS = Stream("queue", "mails")
HOLD = 20.0

pytestmark = pytest.mark.whole("each part has an outbox of its own, and the tests count batches")


@pytest.fixture(autouse=True)
async def emptied(stand: Stand) -> AsyncIterator[None]:
    """An outbox is emptied by relays alone."""
    yield
    await stand.advance(1000)
    while batches := await take(stand, limit=1000):
        for batch in batches:
            await stand.backend.hand_on(batch)


def outgoing(stand: Stand, id: str, *, body: bytes = b"hello") -> Outgoing:
    return Outgoing(MAILS, stand.message(id, body=body))


async def forward(
    stand: Stand, claim: Claim, *ids: str, outcome: Outcome | None = None, body: bytes = b"hello"
) -> Verdict:
    forwards = tuple(outgoing(stand, id, body=body) for id in ids)
    (verdict,) = await stand.backend.settle([Settlement(claim, outcome or Done(), forwards)])
    return verdict


async def take(
    stand: Stand, *, relay: str = "relay-1", limit: int = 100, by: StreamRouter | None = None
) -> list[OutgoingBatch]:
    return await (by or stand.backend).take_outgoing(
        [stand.stream], relay=relay, limit=limit, hold_us=microseconds(HOLD)
    )


async def take_one(stand: Stand, *, relay: str = "relay-1", limit: int = 100) -> OutgoingBatch:
    (batch,) = await take(stand, relay=relay, limit=limit)
    assert batch.origin == stand.stream
    return batch


def ids_of(batch: OutgoingBatch) -> list[str]:
    return [decode_outgoing(entry.content).message.id for entry in batch.entries]


@queue_and_group
async def test_what_a_success_forwards_is_in_the_outbox_of_its_stream(stand: Stand) -> None:
    assert await take(stand) == []
    assert await forward(stand, await stand.running(), "a", "b") is Verdict.KEPT
    batch = await take_one(stand)
    assert ids_of(batch) == ["a", "b"]
    assert decode_outgoing(batch.entries[0].content) == outgoing(stand, "a")


@pytest.mark.parametrize(
    "outcome", [kept(b"42"), dead(), retry(), Released(), Cancelled(HOUR_US), Expired(HOUR_US)], ids=repr
)
async def test_every_outcome_can_forward(stand: Stand, outcome: Outcome) -> None:
    assert await forward(stand, await stand.running(), "a", outcome=outcome) is Verdict.KEPT
    assert ids_of(await take_one(stand)) == ["a"]


async def test_a_settlement_that_is_refused_forwards_nothing(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await forward(stand, claim, "lost", outcome=dead(claim.state)) is Verdict.LOST
    again = await stand.claim_one(claim.id)
    assert await forward(stand, again, "first") is Verdict.KEPT
    assert await forward(stand, claim, "late") is Verdict.GONE
    assert ids_of(await take_one(stand)) == ["first"]


async def test_a_late_success_forwards_if_it_is_the_first(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await forward(stand, claim, "a") is Verdict.KEPT
    assert ids_of(await take_one(stand)) == ["a"]


async def test_settlements_with_and_without_forwards_are_written_together(stand: Stand) -> None:
    claims = [await stand.running() for _ in range(4)]
    settlements = [
        Settlement(claims[0], Done()),
        Settlement(claims[1], Done(), (outgoing(stand, "a"),)),
        Settlement(claims[2], kept(b"42"), (outgoing(stand, "b"), outgoing(stand, "c"))),
        Settlement(claims[3], dead(claims[3].state), (outgoing(stand, "d"),)),
    ]
    assert await stand.backend.settle(settlements) == [Verdict.KEPT] * 4
    assert sorted(ids_of(await take_one(stand))) == ["a", "b", "c", "d"]


async def test_what_is_handed_on_is_gone(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a", "b")
    batch = await take_one(stand)
    await stand.backend.hand_on(batch)
    assert await take(stand) == []
    assert await stand.backend.outboxes() == []
    await forward(stand, await stand.running(), "c")
    await stand.backend.hand_on(batch)  # it is handed on already
    assert ids_of(await take_one(stand)) == ["c"]


async def test_batches_come_in_the_order_of_the_settlements(stand: Stand) -> None:
    for number in range(5):
        await forward(stand, await stand.running(), f"{number}a", f"{number}b")
    seen: list[str] = []
    numbers: list[int] = []
    while batches := await take(stand, limit=3):
        seen += ids_of(batches[0])
        numbers.append(batches[0].number)
        await stand.backend.hand_on(batches[0])
    assert seen == [f"{number}{letter}" for number in range(5) for letter in "ab"]
    assert numbers == sorted(set(numbers))


async def test_a_batch_is_bounded_in_bytes_but_has_one_entry_at_least(stand: Stand) -> None:
    large = bytes(OUTGOING_BYTES * 2 // 3)
    for id in ("a", "b"):
        await forward(stand, await stand.running(), id, body=large)
    batch = await take_one(stand)
    assert ids_of(batch) == ["a"]
    await stand.backend.hand_on(batch)
    assert ids_of(await take_one(stand)) == ["b"]


async def test_a_batch_stays_the_same_until_it_is_handed_on(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    first = await take_one(stand)
    await forward(stand, await stand.running(), "b")
    again = await take_one(stand)
    assert (again.producer, again.number, ids_of(again)) == (first.producer, first.number, ["a"])
    await stand.backend.hand_on(again)
    following = await take_one(stand)
    assert following.producer == first.producer
    assert following.number > first.number
    assert ids_of(following) == ["b"]


async def test_another_relay_gets_a_batch_only_after_the_hold(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    held = await take_one(stand)
    other = await stand.other()
    assert await take(stand, relay="relay-2", by=other) == []
    await stand.advance(HOLD + 1)
    (batch,) = await take(stand, relay="relay-2", by=other)
    assert (batch.producer, batch.number, ids_of(batch)) == (held.producer, held.number, ["a"])
    assert await take(stand) == []


async def test_a_clock_that_was_set_back_does_not_prolong_a_hold(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    await take_one(stand)
    await stand.step(-3600)
    assert ids_of(await take_one(stand, relay="relay-2")) == ["a"]


async def test_entries_that_are_kept_come_first_in_the_next_batch(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a", "b", "c", "d")
    batch = await take_one(stand, limit=3)
    await stand.backend.hand_on(batch, kept=[2, 0])
    following = await take_one(stand)
    assert ids_of(following) == ["a", "c", "d"]
    assert following.number > batch.number


async def test_entries_say_how_long_they_have_waited(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    await stand.advance(10)
    await forward(stand, await stand.running(), "b")
    waited = [entry.waited_us / 1e6 for entry in (await take_one(stand)).entries]
    assert waited == pytest.approx([10, 0], abs=5)
    (record,) = await stand.backend.outboxes()
    assert (record.origin, record.waiting) == (stand.stream, 2)
    assert record.oldest_us / 1e6 == pytest.approx(10, abs=5)


async def test_outboxes_that_are_taken_together_have_producers_of_their_own(stand: Stand) -> None:
    """Else the target takes the batch of one for a repeat of the other, and stores nothing."""
    other = Stream("queue", "other")
    for source, id in ((stand.stream, "a"), (other, "b")):
        await stand.add(source=source)
        (claim,) = await stand.claim(sources=[source])
        await forward(stand, claim, id)
    both = [stand.stream, other]
    batches = await stand.backend.take_outgoing(both, relay="relay-1", limit=9, hold_us=HOUR_US)
    assert sorted(id for batch in batches for id in ids_of(batch)) == ["a", "b"]
    assert len({batch.producer for batch in batches}) == 2
    for batch in batches:
        await stand.backend.hand_on(batch)


async def test_a_queue_with_an_outbox_is_not_removed(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    assert not await stand.backend.store.remove_stream(stand.stream)
    await stand.backend.hand_on(await take_one(stand))
    assert await stand.backend.store.remove_stream(stand.stream)


@pytest.mark.parametrize("kind", ["group"])
async def test_the_outbox_of_a_removed_group_is_still_relayed(stand: Stand) -> None:
    await forward(stand, await stand.running(), "a")
    assert await stand.backend.store.remove_stream(group_stream("orders", "billing"))
    assert ids_of(await take_one(stand)) == ["a"]


async def test_a_batch_that_was_overtaken_is_not_stored(stand: Stand) -> None:
    """A relay that was slow may send a batch when others have gone on."""
    for number in (1, 2):
        batch = stand.batch(stand.message(str(number)), producer="outbox", number=number)
        await stand.backend.append(batch)
        await stand.settle_done(await stand.claim_one(str(number)))
    with pytest.raises(BackendUnavailable):
        await stand.backend.append(stand.batch(stand.message("1"), producer="outbox", number=1))
    assert await stand.claim() == []


# --- dead letters of messages that were never queued -------------------------------------------------------


def refusal(stand: Stand, id: str, *, unique: UniqueKey | None = None) -> Refusal:
    return Refusal(stand.message(id, unique=unique, body=b"body"), DeadReason.REFUSED, FAILURE)


async def test_a_refused_message_is_a_dead_letter(stand: Stand) -> None:
    await stand.backend.bury(stand.stream, [refusal(stand, "a"), refusal(stand, "b")])
    await stand.backend.bury(stand.stream, [refusal(stand, "a")])
    letters = await stand.backend.dead_letters(stand.stream, only=DeadFilter(reason=DeadReason.REFUSED))
    assert sorted(letter.id for letter in letters) == ["a", "b"]
    letter = next(letter for letter in letters if letter.id == "a")
    assert (letter.task, letter.payload, letter.error) == ("greet", b"body", FAILURE.error)
    assert (await stand.counts()).dead == 2
    assert await stand.backend.replay(stand.stream, ["a"]) == [ReplayAnswer.REPLAYED]
    assert (await stand.claim_one("a")).body == b"body"


async def test_a_message_that_is_known_is_not_buried(stand: Stand) -> None:
    ended = await stand.running("ended")
    await stand.settle_done(ended, value=b"42")
    waiting = await stand.add("waiting")
    await stand.backend.bury(stand.stream, [refusal(stand, waiting), refusal(stand, ended.id)])
    assert await stand.status(waiting) is JobStatus.QUEUED
    assert await stand.status(ended.id) is JobStatus.SUCCEEDED
    assert (await stand.counts()).dead == 0


async def test_a_refused_message_holds_no_key_and_takes_it_when_it_is_replayed(stand: Stand) -> None:
    key = UniqueKey("key")
    await stand.backend.bury(stand.stream, [refusal(stand, "a", unique=key)])
    owner = await stand.running("b", unique=key)
    assert await stand.backend.replay(stand.stream, ["a"]) == [ReplayAnswer.DUPLICATE]
    await stand.settle_done(owner)
    assert await stand.backend.replay(stand.stream, ["a"]) == [ReplayAnswer.REPLAYED]


async def test_dead_letters_forward_what_they_are_told(stand: Stand) -> None:
    claim = await stand.running()
    outcome = dead(claim.state)
    assert isinstance(outcome, Dead)
    await forward(stand, claim, "report", outcome=outcome)
    assert await stand.status(claim.id) is JobStatus.DEAD
    assert ids_of(await take_one(stand)) == ["report"]
