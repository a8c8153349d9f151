"""How long a message holds its unique key: until it is finished, until it is started, or for a time."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Cancelled, Done, Expired, Outcome, Released, Snoozed
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, dead, kept, retry

from .kinds import ELAPSED, FINISHED, STARTED, owner_of

# --- until finished ---------------------------------------------------------------------------------------


async def test_until_finished_a_scheduled_message_holds_its_key(stand: Stand) -> None:
    id = await stand.add(unique=FINISHED, delay=10)
    assert await owner_of(stand, FINISHED) == id


async def test_until_finished_a_running_message_holds_its_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    assert await owner_of(stand, FINISHED) == claim.id


@pytest.mark.parametrize(
    "outcome",
    [retry(), Snoozed(FRESH, microseconds(10)), Released(), Released(FRESH, microseconds(10))],
    ids=["retry", "snoozed", "released", "released with a delay"],
)
async def test_until_finished_a_message_that_runs_again_holds_its_key(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.settle(claim, outcome)
    assert await owner_of(stand, FINISHED) == claim.id


async def test_until_finished_a_recovered_message_holds_its_key(stand: Stand) -> None:
    claim = await stand.running(unique=FINISHED)
    await stand.lose(claim)
    assert await owner_of(stand, FINISHED) == claim.id


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
    assert await owner_of(stand, FINISHED) == claim.id


async def test_a_late_settlement_does_not_release_the_key_of_the_next_owner(stand: Stand) -> None:
    first = await stand.running(unique=FINISHED)
    await stand.settle_done(first)
    second = await stand.running(unique=FINISHED)
    await stand.settle_done(first)
    assert await owner_of(stand, FINISHED) == second.id


# --- until started ----------------------------------------------------------------------------------------


async def test_until_started_a_scheduled_message_holds_its_key(stand: Stand) -> None:
    id = await stand.add(unique=STARTED, delay=10)
    assert await owner_of(stand, STARTED) == id
    await stand.advance(11)
    await stand.promote()
    assert await owner_of(stand, STARTED) == id


async def test_until_started_a_claim_releases_the_key(stand: Stand) -> None:
    await stand.running(unique=STARTED)
    await stand.add(unique=STARTED)


async def test_until_started_a_message_that_runs_again_does_not_take_its_key_back(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    await stand.retry(claim)
    owner = await stand.add(unique=STARTED)
    await stand.advance(11)
    await stand.promote()
    assert await owner_of(stand, STARTED) == owner


async def test_until_started_the_second_claim_of_a_message_releases_no_other_key(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    owner = await stand.add(unique=STARTED, delay=100)
    await stand.settle(claim, Released())
    await stand.claim_one(claim.id)
    assert await owner_of(stand, STARTED) == owner


async def test_until_started_the_end_of_a_former_owner_releases_no_other_key(stand: Stand) -> None:
    claim = await stand.running(unique=STARTED)
    owner = await stand.add(unique=STARTED)
    await stand.settle_done(claim)
    assert await owner_of(stand, STARTED) == owner


async def test_until_started_the_cancellation_of_a_waiting_message_releases_the_key(stand: Stand) -> None:
    id = await stand.add(unique=STARTED)
    await stand.backend.cancel(stand.stream, id, ttl_us=0)
    await stand.add(unique=STARTED)


# --- until a time has passed ------------------------------------------------------------------------------


async def test_until_elapsed_the_key_is_held_for_its_window(stand: Stand) -> None:
    id = await stand.add(unique=ELAPSED)
    await stand.advance(50)
    assert await owner_of(stand, ELAPSED) == id
    await stand.advance(11)
    await stand.add(unique=ELAPSED)


@pytest.mark.parametrize("outcome", [Done(), dead(), Cancelled(0)], ids=["done", "dead", "cancelled"])
async def test_until_elapsed_the_end_of_its_message_does_not_release_the_key(
    stand: Stand, outcome: Outcome
) -> None:
    claim = await stand.running(unique=ELAPSED)
    await stand.settle(claim, outcome)
    assert await owner_of(stand, ELAPSED) == claim.id


async def test_until_elapsed_a_new_window_begins_with_the_next_message(stand: Stand) -> None:
    await stand.add(unique=ELAPSED)
    await stand.advance(61)
    second = await stand.add(unique=ELAPSED)
    await stand.advance(50)
    assert await owner_of(stand, ELAPSED) == second


async def test_until_elapsed_the_end_of_a_former_owner_releases_no_other_key(stand: Stand) -> None:
    claim = await stand.running(unique=ELAPSED)
    await stand.advance(61)
    owner = await stand.add(unique=FINISHED)
    await stand.settle_done(claim)
    assert await owner_of(stand, FINISHED) == owner


async def test_until_elapsed_a_new_owner_leaves_the_expired_former_owner_alone(stand: Stand) -> None:
    """Nothing changes for the former owner: its key was free before the new message came."""
    await stand.add(unique=ELAPSED, lifetime=100)
    await stand.advance(101)
    await stand.add(unique=ELAPSED)
    assert (await stand.counts()).queued == 2


async def test_until_elapsed_pruning_does_not_release_a_key_before_its_time(stand: Stand) -> None:
    id = await stand.add(unique=ELAPSED)
    await stand.advance(30)
    await stand.backend.prune(limit=100)
    assert await owner_of(stand, ELAPSED) == id


async def test_until_elapsed_pruning_leaves_a_key_that_was_taken_anew(stand: Stand) -> None:
    await stand.add(unique=ELAPSED)
    await stand.advance(61)
    owner = await stand.add(unique=FINISHED)
    await stand.backend.prune(limit=100)
    await stand.advance(LEASE * 100)
    await stand.backend.prune(limit=100)
    assert await owner_of(stand, FINISHED) == owner
