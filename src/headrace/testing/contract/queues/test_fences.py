"""Only the holder of a message settles it. A success is the exception: a former holder's counts, too."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import (
    Cancelled,
    Done,
    Expired,
    Outcome,
    Released,
    Snoozed,
    Verdict,
)
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.outcomes import every_fenced_outcome
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, dead, kept, queue_and_group, retry


@queue_and_group
@every_fenced_outcome
async def test_an_outcome_is_lost_when_another_holds_the_message(stand: Stand, outcome: Outcome) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    assert await stand.settle(former, outcome) is Verdict.LOST
    record = await stand.look(former.id)
    assert (record.status, record.worker) == (JobStatus.RUNNING, "worker-2")
    assert await stand.settle_done(holder, value=b"42") is Verdict.KEPT


@every_fenced_outcome
async def test_an_outcome_is_lost_when_the_message_was_taken_away(stand: Stand, outcome: Outcome) -> None:
    former = await stand.running()
    await stand.lose(former)
    assert await stand.settle(former, outcome) is Verdict.LOST
    assert await stand.status(former.id) is JobStatus.QUEUED
    assert (await stand.claim_one(former.id)).state.crashes == 1


@every_fenced_outcome
async def test_an_outcome_is_lost_when_the_message_is_over(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.settle_done(claim, value=b"42")
    assert await stand.settle(claim, outcome) is Verdict.LOST
    record = await stand.look(claim.id)
    assert (record.status, record.result) == (JobStatus.SUCCEEDED, b"42")


@every_fenced_outcome
async def test_an_outcome_is_lost_when_the_same_worker_claimed_it_again(
    stand: Stand, outcome: Outcome
) -> None:
    former = await stand.running()
    await stand.settle(former, Released())
    await stand.claim_one(former.id)
    assert await stand.settle(former, outcome) is Verdict.LOST
    assert await stand.status(former.id) is JobStatus.RUNNING


@every_fenced_outcome
async def test_an_outcome_settled_twice_counts_once(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    before = await stand.look(claim.id)
    assert await stand.settle(claim, outcome) is Verdict.LOST
    assert await stand.look(claim.id) == before


@every_fenced_outcome
async def test_a_lease_that_ran_out_holds_until_it_is_reclaimed(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.advance(LEASE * 3)
    assert await stand.settle(claim, outcome) is Verdict.KEPT


async def test_another_process_may_write_what_the_claim_came_to(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, Done(), by=await stand.other()) is Verdict.KEPT
    assert await stand.backend.get(stand.stream, claim.id) is None


# --- the one exception: a success -------------------------------------------------------------------------


@queue_and_group
async def test_a_late_success_counts_while_another_runs_the_message(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    assert await stand.settle(former, kept(b"first")) is Verdict.KEPT
    assert await stand.settle(holder, kept(b"second")) is Verdict.GONE
    assert (await stand.look(former.id)).result == b"first"
    assert (await stand.counts()).running == 0


async def test_after_a_late_success_the_other_holder_has_lost_it(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    await stand.settle(former, Done())
    assert await stand.settle(holder, retry()) is Verdict.LOST
    await stand.advance(LEASE + 1)
    assert await stand.reclaim() == []
    assert await stand.status(former.id) is JobStatus.UNKNOWN


async def test_a_late_success_counts_while_the_message_is_queued_again(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    assert await stand.settle(former, kept(b"42")) is Verdict.KEPT
    assert await stand.claim() == []
    assert (await stand.look(former.id)).result == b"42"
    assert (await stand.counts()).queued == 0


async def test_a_late_success_counts_while_the_message_is_handed_back(stand: Stand) -> None:
    former = await stand.running()
    await stand.settle(former, Released())
    other = await stand.add()
    assert await stand.settle(former, Done()) is Verdict.KEPT
    assert await stand.claim_ids() == [other]


async def test_the_success_of_the_holder_counts_after_the_former_has_failed(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    assert await stand.settle(former, dead()) is Verdict.LOST
    assert await stand.settle(holder, Done()) is Verdict.KEPT


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (retry(), JobStatus.RETRYING),
        (Snoozed(FRESH, microseconds(10)), JobStatus.SCHEDULED),
        (Released(FRESH, microseconds(10)), JobStatus.SCHEDULED),
        (dead(), JobStatus.DEAD),
        (Cancelled(HOUR_US), JobStatus.CANCELLED),
        (Expired(HOUR_US), JobStatus.EXPIRED),
        (kept(b"first"), JobStatus.SUCCEEDED),
        (Done(), JobStatus.UNKNOWN),
    ],
    ids=lambda value: value.value if isinstance(value, JobStatus) else "",
)
async def test_a_success_that_comes_too_late_is_gone_and_writes_nothing(
    stand: Stand, outcome: Outcome, status: JobStatus
) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    before = await stand.backend.get(stand.stream, claim.id)
    assert await stand.settle(claim, kept(b"late")) is Verdict.GONE
    assert await stand.backend.get(stand.stream, claim.id) == before
    assert await stand.status(claim.id) is status


async def test_a_success_settled_twice_counts_once(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, kept(b"42")) is Verdict.KEPT
    assert await stand.settle(claim, kept(b"42")) is Verdict.GONE


async def test_a_success_is_gone_once_another_holder_has_failed(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    await stand.retry(await stand.claim_one(former.id, consumer="worker-2"))
    assert await stand.settle(former, kept(b"late")) is Verdict.GONE
    assert await stand.status(former.id) is JobStatus.RETRYING


async def test_a_success_does_not_settle_a_later_message_of_the_same_id(stand: Stand) -> None:
    claim = await stand.running("chosen")
    await stand.settle_done(claim)
    await stand.add("chosen")
    assert await stand.settle(claim, kept(b"late")) is Verdict.GONE
    assert await stand.claim_ids() == ["chosen"]
    assert await stand.settle(claim, kept(b"late")) is Verdict.GONE
    assert await stand.status("chosen") is JobStatus.RUNNING
