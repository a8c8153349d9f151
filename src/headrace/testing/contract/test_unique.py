"""Unique keys: one message of a stream holds a key, until it is finished, started, or a time has passed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headrace.core.messages.message import FRESH, Stream, TrailEntry, UniqueKey
from headrace.core.messages.outcome import Cancelled, Done, Expired, Outcome, Released, Snoozed
from headrace.core.records.answers import Answer, CancelAnswer, ReplayAnswer, Wanted
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.core.schedules.schedule_record import advance, establish

from .stand import HOUR_US, LEASE, Stand, dead, kept, retry

FINISHED = UniqueKey("report:7")
STARTED = UniqueKey("report:7", "started")
ELAPSED = UniqueKey("report:7", "elapsed", microseconds(60))
every_kind = pytest.mark.parametrize("unique", [FINISHED, STARTED, ELAPSED], ids=lambda unique: unique.until)


@every_kind
async def test_a_second_message_with_the_key_is_a_duplicate_of_the_first(
    stand: Stand, unique: UniqueKey
) -> None:
    id = await stand.add(unique=unique)
    assert await stand.append(stand.message(unique=unique)) == [Answer(id, "duplicate")]
    assert (await stand.counts()).queued == 1


@every_kind
async def test_the_key_holds_within_a_batch(stand: Stand, unique: UniqueKey) -> None:
    first, second = stand.message(unique=unique), stand.message(unique=unique)
    assert await stand.append(first, second) == [Answer(first.id), Answer(first.id, "duplicate")]


@every_kind
async def test_the_key_holds_for_other_processes(stand: Stand, unique: UniqueKey) -> None:
    id = await stand.add(unique=unique)
    batch = stand.batch(stand.message(unique=unique), producer="another")
    assert await (await stand.other()).append(batch) == [Answer(id, "duplicate")]


@every_kind
async def test_a_key_belongs_to_its_stream(stand: Stand, unique: UniqueKey) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(unique=unique)
    await stand.add(unique=unique, source=elsewhere)


async def test_another_key_is_another_matter(stand: Stand) -> None:
    await stand.add(unique=UniqueKey("report:7"))
    await stand.add(unique=UniqueKey("report:8"))
    await stand.add()


async def test_a_duplicate_by_key_leaves_nothing_behind(stand: Stand) -> None:
    holder = await stand.running(unique=FINISHED)
    refused = stand.message(unique=FINISHED)
    await stand.append(refused)
    assert await stand.status(refused.id) is JobStatus.UNKNOWN
    await stand.settle_done(holder)
    assert await stand.append(refused) == [Answer(refused.id)]


@pytest.mark.whole("a limit holds for each part")
async def test_a_message_that_is_refused_because_it_is_full_does_not_take_its_key(stand: Stand) -> None:
    await stand.add()
    (answer,) = await stand.append(stand.message(unique=FINISHED), limit=1)
    assert answer.verdict == "full"
    await stand.add(unique=FINISHED)


async def test_a_key_that_is_held_is_told_even_when_it_is_full(stand: Stand) -> None:
    id = await stand.add(unique=FINISHED)
    assert await stand.append(stand.message(unique=FINISHED), limit=1) == [Answer(id, "duplicate")]


# --- until finished ---------------------------------------------------------------------------------------


async def test_until_finished_a_scheduled_message_holds_its_key(stand: Stand) -> None:
    id = await stand.add(unique=FINISHED, delay=10)
    assert await _owner(stand, FINISHED) == id


async def test_until_finished_a_running_message_holds_its_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    assert await _owner(stand, FINISHED) == claim.id


@pytest.mark.parametrize(
    "outcome",
    [retry(), Snoozed(FRESH, microseconds(10)), Released(), Released(FRESH, microseconds(10))],
    ids=["retry", "snoozed", "released", "released with a delay"],
)
async def test_until_finished_a_message_that_runs_again_holds_its_key(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.settle(claim, outcome)
    assert await _owner(stand, FINISHED) == claim.id


async def test_until_finished_a_recovered_message_holds_its_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.lose(claim)
    assert await _owner(stand, FINISHED) == claim.id


@pytest.mark.parametrize(
    "outcome",
    [Done(), kept(b"42"), dead(), Cancelled(HOUR_US), Expired(HOUR_US)],
    ids=["done", "done and kept", "dead", "cancelled", "expired"],
)
async def test_until_finished_the_end_releases_the_key(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.settle(claim, outcome)
    await stand.add(unique=FINISHED)


async def test_until_finished_the_late_success_of_another_releases_the_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.lose(claim)
    await stand.settle(claim, Done())
    await stand.add(unique=FINISHED)


async def test_until_finished_the_cancellation_of_a_waiting_message_releases_the_key(stand: Stand) -> None:
    for delay in (0, 10):
        id = await stand.add(unique=FINISHED, delay=delay)
        await stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US)
    await stand.add(unique=FINISHED)


async def test_until_finished_death_at_the_crash_limit_releases_the_key(stand: Stand) -> None:
    id = await stand.add(unique=FINISHED)
    for _ in range(3):
        await stand.lose(await stand.claim_one(id))
    assert await stand.status(id) is JobStatus.DEAD
    await stand.add(unique=FINISHED)


async def test_a_lost_settlement_does_not_release_the_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.settle(claim, Released())
    await stand.settle(claim, dead())
    assert await _owner(stand, FINISHED) == claim.id


async def test_a_late_settlement_does_not_release_the_key_of_the_next_owner(stand: Stand) -> None:
    first = await stand.running(unique=FINISHED)
    await stand.settle_done(first)
    second = await stand.running(unique=FINISHED)
    await stand.settle_done(first)
    assert await _owner(stand, FINISHED) == second.id


async def test_a_replayed_message_takes_its_key_again(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]
    assert await _owner(stand, FINISHED) == claim.id


async def test_a_message_whose_key_another_holds_by_now_stays_dead(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    other = await stand.add(unique=FINISHED)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.DUPLICATE]
    assert await stand.status(claim.id) is JobStatus.DEAD
    assert await _owner(stand, FINISHED) == other


async def test_a_message_may_be_replayed_once_its_key_is_free_again(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    await stand.settle_done(await stand.running(unique=FINISHED))
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]


async def test_of_dead_letters_with_one_key_the_first_is_replayed(stand: Stand) -> None:
    """Wherever they lie."""
    claims = []
    for _ in range(8):
        claims.append(await stand.running(unique=FINISHED))
        await stand.die(claims[-1])
    answers = await stand.backend.replay(stand.stream, [claim.id for claim in claims])
    assert answers == [ReplayAnswer.REPLAYED, *[ReplayAnswer.DUPLICATE] * 7]


async def test_a_key_that_is_held_since_a_split_keeps_a_letter_from_before_it_dead(stand: Stand) -> None:
    """Its key leads to another part by now, and the step that replays looks into its own only."""
    claims = []
    for parts in (5, 7):
        claims.append(await stand.running(unique=FINISHED))
        await stand.die(claims[-1])
        await stand.split(parts)
    first, second = (claim.id for claim in claims)
    other = await stand.running(unique=FINISHED)
    assert await stand.backend.replay(stand.stream, [first]) == [ReplayAnswer.DUPLICATE]
    assert await stand.status(first) is JobStatus.DEAD
    await stand.settle_done(other)
    answers = await stand.backend.replay(stand.stream, [first, "unknown", second, first])
    assert sorted(answers) == sorted(
        [ReplayAnswer.REPLAYED, *[ReplayAnswer.GONE] * 2, ReplayAnswer.DUPLICATE]
    )
    assert answers.index(ReplayAnswer.REPLAYED) in (0, 2)
    assert await _owner(stand, FINISHED) in (first, second)


@pytest.mark.parametrize("unique", [STARTED, ELAPSED])
async def test_a_letter_that_takes_no_key_again_is_replayed_over_a_split(
    stand: Stand, unique: UniqueKey
) -> None:
    claim = await stand.running(unique=unique)
    await stand.die(claim)
    await stand.split(5)
    await stand.advance(61)
    await stand.add(unique=unique)
    assert await stand.backend.replay(stand.stream, [claim.id]) == [ReplayAnswer.REPLAYED]


async def test_a_discarded_dead_letter_does_not_release_the_key_of_the_next_owner(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.die(claim)
    owner = await stand.add(unique=FINISHED)
    await stand.backend.discard(stand.stream, [claim.id])
    assert await _owner(stand, FINISHED) == owner


# --- until started ----------------------------------------------------------------------------------------


async def test_until_started_a_scheduled_message_holds_its_key(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=10)
    assert await _owner(stand, STARTED) == id
    await stand.advance(11)
    await stand.promote()
    assert await _owner(stand, STARTED) == id


async def test_until_started_a_claim_releases_the_key(stand: Stand) -> None:
    await stand.running(unique=STARTED)
    await stand.add(unique=STARTED)


async def test_until_started_a_message_that_runs_again_does_not_take_its_key_back(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    await stand.retry(claim)
    owner = await stand.add(unique=STARTED)
    await stand.advance(11)
    await stand.promote()
    assert await _owner(stand, STARTED) == owner


async def test_until_started_the_second_claim_of_a_message_releases_nobodys_key(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    owner = await stand.add(unique=STARTED, delay=100)
    await stand.settle(claim, Released())
    await stand.claim_one(claim.id)
    assert await _owner(stand, STARTED) == owner


async def test_until_started_the_end_of_a_former_owner_releases_nobodys_key(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    owner = await stand.add(unique=STARTED)
    await stand.settle_done(claim)
    assert await _owner(stand, STARTED) == owner


async def test_until_started_the_cancellation_of_a_waiting_message_releases_the_key(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    await stand.backend.cancel(stand.stream, id, ttl_us=0)
    await stand.add(unique=STARTED)


# --- until a time has passed ------------------------------------------------------------------------------


async def test_until_elapsed_the_key_is_held_for_its_window(stand: Stand) -> None:
    id = await stand.add(unique=ELAPSED)
    await stand.advance(59)
    assert await _owner(stand, ELAPSED) == id
    await stand.advance(2)
    await stand.add(unique=ELAPSED)


@pytest.mark.parametrize("outcome", [Done(), dead(), Cancelled(0)], ids=["done", "dead", "cancelled"])
async def test_until_elapsed_the_end_of_its_message_does_not_release_the_key(
    stand: Stand, outcome: Outcome
) -> None:
    claim = await stand.running(unique=ELAPSED)
    await stand.settle(claim, outcome)
    assert await _owner(stand, ELAPSED) == claim.id


async def test_until_elapsed_a_new_window_begins_with_the_next_message(stand: Stand) -> None:
    await stand.add(unique=ELAPSED)
    await stand.advance(61)
    second = await stand.add(unique=ELAPSED)
    await stand.advance(59)
    assert await _owner(stand, ELAPSED) == second


async def test_until_elapsed_the_end_of_a_former_owner_releases_nobodys_key(stand: Stand) -> None:
    claim = await stand.running(unique=ELAPSED)
    await stand.advance(61)
    owner = await stand.add(unique=FINISHED)
    await stand.settle_done(claim)
    assert await _owner(stand, FINISHED) == owner


async def test_until_elapsed_pruning_does_not_release_a_key_before_its_time(stand: Stand) -> None:
    id = await stand.add(unique=ELAPSED)
    await stand.advance(30)
    await stand.backend.prune(limit=100)
    assert await _owner(stand, ELAPSED) == id


async def test_until_elapsed_pruning_leaves_a_key_that_was_taken_anew(stand: Stand) -> None:
    await stand.add(unique=ELAPSED)
    await stand.advance(61)
    owner = await stand.add(unique=FINISHED)
    await stand.backend.prune(limit=100)
    await stand.advance(LEASE * 100)
    await stand.backend.prune(limit=100)
    assert await _owner(stand, FINISHED) == owner


async def _owner(stand: Stand, unique: UniqueKey) -> str:
    """Whose duplicate a message with this key is."""
    (answer,) = await stand.append(stand.message(unique=unique))
    assert answer.verdict == "duplicate"
    return answer.id


# --- looking ----------------------------------------------------------------------------------------------


@every_kind
async def test_the_holder_of_a_key_is_known_and_says_so(stand: Stand, unique: UniqueKey) -> None:
    id = await stand.add(unique=unique)
    other = await stand.other()
    assert await other.holders(stand.stream, [Wanted(key=unique.key)]) == [id]
    assert await other.holders(stand.stream, [Wanted(key="report:8")]) == [None]
    assert (await stand.look(id)).unique_key == "report:7"
    [listed] = await other.messages(stand.stream)
    assert listed.unique_key == "report:7"


async def test_a_key_is_looked_for_in_its_stream_alone(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add(unique=FINISHED)
    assert await stand.backend.holders(elsewhere, [Wanted(key=FINISHED.key)]) == [None]
    assert await stand.backend.holders(Stream("queue", "nowhere"), [Wanted(key=FINISHED.key)]) == [None]


async def test_a_key_that_was_given_up_has_no_holder_but_is_remembered_while_the_message_lives(
    stand: Stand,
) -> None:
    finished = await stand.running(unique=FINISHED)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [finished.id]
    await stand.die(finished)
    assert await stand.backend.holders(stand.stream, [Wanted(key=FINISHED.key)]) == [None]
    assert (await stand.look(finished.id)).unique_key == FINISHED.key

    started = await stand.running(unique=STARTED)
    assert await stand.backend.holders(stand.stream, [Wanted(key=STARTED.key)]) == [None]
    assert (await stand.look(started.id)).unique_key == STARTED.key
    await stand.settle_done(started, value=b"42")

    elapsed = await stand.running(unique=ELAPSED)
    assert (await stand.look(elapsed.id)).unique_key == ELAPSED.key
    await stand.settle_done(elapsed, value=b"42")
    assert await stand.backend.holders(stand.stream, [Wanted(key=ELAPSED.key)]) == [elapsed.id]
    await stand.advance(61)
    assert await stand.backend.holders(stand.stream, [Wanted(key=ELAPSED.key)]) == [None]


@pytest.mark.parametrize("unique", [STARTED, ELAPSED], ids=lambda unique: unique.until)
async def test_a_replay_takes_no_key_that_is_not_the_messages_own_any_more(
    stand: Stand, unique: UniqueKey
) -> None:
    dead_one = await stand.running(unique=unique)
    await stand.die(dead_one)
    await stand.advance(61)
    holder = await stand.add(unique=unique)
    assert await stand.backend.replay(stand.stream, [dead_one.id]) == [ReplayAnswer.REPLAYED]
    assert await stand.backend.holders(stand.stream, [Wanted(key=unique.key)]) == [holder]
    claims = await stand.claim(2)
    await stand.settle_done(next(claim for claim in claims if claim.id == dead_one.id))
    elapses = unique.until == "elapsed"
    held = await stand.backend.holders(stand.stream, [Wanted(key=unique.key)])
    assert held == [holder if elapses else None]


async def test_a_message_without_a_key_says_so(stand: Stand) -> None:
    assert (await stand.look(await stand.add())).unique_key == ""


# --- and expiry -------------------------------------------------------------------------------------------


async def _expired(stand: Stand, unique: UniqueKey, delay: float = 0) -> str:
    """A message that holds the key and waits longer than it was to."""
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
    assert await _owner(stand, unique) == following
    await stand.promote()
    assert await stand.claim_ids() == [following]
    assert (await stand.counts()).queued == 0


async def test_whoever_waits_for_an_expired_owner_is_woken_when_its_key_is_taken(stand: Stand) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    other = await stand.other()
    waiter = asyncio.create_task(other.wait_for_end(stand.stream, owner, 10))
    assert await other.wait_for_end(stand.stream, owner, 0.1) is None  # by now the first one waits as well
    await stand.advance(31)
    await stand.add(unique=FINISHED)
    record = await waiter
    assert record is not None
    assert record.status is JobStatus.EXPIRED


async def test_the_mark_of_an_expired_owner_stays_as_long_as_the_next_message_says(stand: Stand) -> None:
    owner = await _expired(stand, FINISHED)
    following = msgspec.structs.replace(stand.message(unique=FINISHED), expired_ttl_us=microseconds(60))
    await stand.append(following)
    await stand.advance(59)
    assert await stand.status(owner) is JobStatus.EXPIRED
    await stand.advance(2)
    assert await stand.status(owner) is JobStatus.UNKNOWN


@every_kind
async def test_a_message_that_is_settled_as_expired_gives_up_its_key(stand: Stand, unique: UniqueKey) -> None:
    claim = await stand.running(unique=unique)
    await stand.settle(claim, Expired(HOUR_US))
    await stand.add(unique=unique)


@pytest.mark.parametrize(
    "outcome",
    [retry(), Snoozed(FRESH.snoozed(TrailEntry(1, "snoozed", "worker-1")), microseconds(10))],
    ids=["retry", "snoozed"],
)
async def test_an_owner_that_was_begun_in_time_keeps_its_key(stand: Stand, outcome: Outcome) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    claim = await stand.claim_one(owner)
    await stand.advance(31)
    assert await _owner(stand, FINISHED) == owner
    await stand.settle(claim, outcome)
    assert await _owner(stand, FINISHED) == owner
    assert await stand.status(owner) in (JobStatus.RETRYING, JobStatus.SCHEDULED)


async def test_an_owner_that_was_handed_back_unbegun_gives_up_its_key(stand: Stand) -> None:
    owner = await stand.add(unique=FINISHED, lifetime=30)
    await stand.settle(await stand.claim_one(owner), Released(FRESH.released()))
    await stand.advance(31)
    await stand.add(unique=FINISHED)
    assert await stand.status(owner) is JobStatus.EXPIRED


@pytest.mark.whole("a limit holds for each part")
async def test_an_expired_owner_makes_room_for_the_next_message(stand: Stand) -> None:
    await _expired(stand, FINISHED)
    first, second = stand.message(unique=FINISHED), stand.message()
    assert await stand.append(first, second, limit=1) == [Answer(first.id), Answer(second.id, "full")]


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


async def test_an_expired_owner_from_before_a_split_stands_in_nobodys_way(stand: Stand) -> None:
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
