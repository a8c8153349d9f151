"""Cancelling: a waiting message is removed at once. The worker of a running message is informed."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH, Stream
from headrace.core.messages.outcome import Cancelled, Outcome, Released, Snoozed, Verdict
from headrace.core.records.answers import CancelAnswer
from headrace.core.records.control import CancelNotice, ControlMessage
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, dead, kept, retry
from headrace.testing.waiting import wait_until


async def test_a_queued_message_is_removed(stand: Stand) -> None:
    id, other = await stand.add(), await stand.add()
    assert await _cancel(stand, id) is CancelAnswer.REMOVED
    assert await stand.status(id) is JobStatus.CANCELLED
    assert await stand.claim_ids() == [other]


async def test_a_scheduled_message_is_removed(stand: Stand) -> None:
    id = await stand.add(delay=10)
    assert await _cancel(stand, id) is CancelAnswer.REMOVED
    assert await stand.status(id) is JobStatus.CANCELLED
    assert (await stand.counts()).scheduled == 0


async def test_a_retrying_message_is_removed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.retry(claim)
    assert await _cancel(stand, claim.id) is CancelAnswer.REMOVED
    assert (await stand.counts()).retrying == 0


async def test_a_recovered_message_is_removed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await _cancel(stand, claim.id) is CancelAnswer.REMOVED
    assert await stand.claim() == []


async def test_a_returned_message_is_removed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Released())
    assert await _cancel(stand, claim.id) is CancelAnswer.REMOVED
    assert await stand.claim() == []


async def test_an_end_record_says_for_a_time_that_it_was_cancelled(stand: Stand) -> None:
    id = await stand.add()
    await stand.backend.cancel(stand.stream, id, ttl_us=microseconds(60))
    record = await stand.look(id)
    assert abs(record.ended_us - stand.now_us()) < 5 * SECOND
    await stand.advance(61)
    assert await stand.status(id) is JobStatus.UNKNOWN


async def test_an_end_record_of_no_time_is_no_end_record(stand: Stand) -> None:
    id = await stand.add()
    assert await stand.backend.cancel(stand.stream, id, ttl_us=0) is CancelAnswer.REMOVED
    assert await stand.status(id) is JobStatus.UNKNOWN


async def test_a_running_message_is_told_and_goes_on(stand: Stand) -> None:
    claim = await stand.running()
    assert await _cancel(stand, claim.id) is CancelAnswer.REQUESTED
    assert await stand.status(claim.id) is JobStatus.RUNNING


async def test_its_worker_ends_a_running_message(stand: Stand) -> None:
    claim = await stand.running()
    await _cancel(stand, claim.id)
    assert await stand.settle(claim, Cancelled(HOUR_US)) is Verdict.KEPT
    assert await stand.status(claim.id) is JobStatus.CANCELLED


async def test_what_is_over_is_gone(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, kept(b"42"))
    assert await _cancel(stand, claim.id) is CancelAnswer.GONE
    assert await stand.status(claim.id) is JobStatus.SUCCEEDED


async def test_what_is_dead_is_gone_and_stays_dead(stand: Stand) -> None:
    claim = await stand.running()
    await stand.die(claim)
    assert await _cancel(stand, claim.id) is CancelAnswer.GONE
    assert await stand.status(claim.id) is JobStatus.DEAD


async def test_what_never_was_is_gone(stand: Stand) -> None:
    assert await _cancel(stand, "nobody") is CancelAnswer.GONE
    assert await stand.backend.cancel(Stream("queue", "nowhere"), "nobody", ttl_us=0) is CancelAnswer.GONE
    assert await stand.status("nobody") is JobStatus.UNKNOWN


async def test_cancelling_again_is_harmless(stand: Stand) -> None:
    waiting, running = await stand.add(delay=10), await stand.running()
    await _cancel(stand, waiting)
    await _cancel(stand, running.id)
    assert await _cancel(stand, waiting) is CancelAnswer.GONE
    assert await _cancel(stand, running.id) is CancelAnswer.REQUESTED
    assert await stand.status(waiting) is JobStatus.CANCELLED


async def test_another_process_may_cancel(stand: Stand) -> None:
    id = await stand.add()
    answer = await (await stand.other()).cancel(stand.stream, id, ttl_us=HOUR_US)
    assert answer is CancelAnswer.REMOVED
    assert await stand.claim() == []


@pytest.mark.parametrize(
    "outcome",
    [
        retry(),
        retry(delay=0),
        Snoozed(FRESH, microseconds(10)),
        Released(),
        Released(FRESH, microseconds(10)),
    ],
    ids=["retry", "retry at once", "snoozed", "released", "released with a delay"],
)
async def test_what_was_to_be_cancelled_does_not_run_again(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await _cancel(stand, claim.id)
    assert await stand.settle(claim, outcome) is Verdict.KEPT
    assert await stand.status(claim.id) is JobStatus.CANCELLED
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim() == []


async def test_the_end_record_of_a_cancelled_retry_stays_for_the_time_the_canceller_wanted(
    stand: Stand,
) -> None:
    claim = await stand.running()
    await stand.backend.cancel(stand.stream, claim.id, ttl_us=microseconds(60))
    await stand.settle(claim, retry())
    await stand.advance(50)
    assert await stand.status(claim.id) is JobStatus.CANCELLED
    await stand.advance(11)
    assert await stand.status(claim.id) is JobStatus.UNKNOWN


async def test_a_success_counts_although_it_was_to_be_cancelled(stand: Stand) -> None:
    claim = await stand.running()
    await _cancel(stand, claim.id)
    assert await stand.settle(claim, kept(b"42")) is Verdict.KEPT
    assert (await stand.look(claim.id)).result == b"42"


async def test_a_death_counts_although_it_was_to_be_cancelled(stand: Stand) -> None:
    claim = await stand.running()
    await _cancel(stand, claim.id)
    await stand.settle(claim, dead())
    assert await stand.status(claim.id) is JobStatus.DEAD


async def test_a_recovery_ends_what_was_to_be_cancelled_even_at_the_crash_limit(stand: Stand) -> None:
    id = await stand.add()
    for _ in range(2):
        await stand.lose(await stand.claim_one(id))
    await stand.claim_one(id)
    await _cancel(stand, id)
    await stand.advance(LEASE + 1)
    (recovery,) = await stand.reclaim()
    assert recovery.status is JobStatus.CANCELLED
    assert await stand.status(id) is JobStatus.CANCELLED


async def test_the_next_message_of_the_same_id_is_not_to_be_cancelled(stand: Stand) -> None:
    claim = await stand.running("chosen")
    await _cancel(stand, "chosen")
    await stand.settle_done(claim)
    again = await stand.running("chosen")
    await stand.retry(again)
    assert await stand.status("chosen") is JobStatus.RETRYING


async def test_a_replayed_message_is_not_to_be_cancelled(stand: Stand) -> None:
    claim = await stand.running()
    await _cancel(stand, claim.id)
    await stand.die(claim)
    await stand.backend.replay(stand.stream, [claim.id])
    await stand.retry(await stand.claim_one(claim.id))
    assert await stand.status(claim.id) is JobStatus.RETRYING


async def test_the_cancellation_of_a_running_message_is_announced_to_every_process(stand: Stand) -> None:
    claim = await stand.running()
    here: list[ControlMessage] = []
    there: list[ControlMessage] = []
    stops = [stand.backend.listen(here.append), (await stand.other()).listen(there.append)]
    await _cancel(stand, claim.id)
    order = CancelNotice(stand.stream, claim.id)
    await wait_until(lambda: here == [order] and there == [order])
    for stop in stops:
        stop()


async def _cancel(stand: Stand, id: str) -> CancelAnswer:
    return await stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US)
