"""Settling: what each outcome leaves behind. Who may settle a message is tested in `test_fences.py`."""

from __future__ import annotations

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, TRAIL_LENGTH, TrailEntry
from headrace.core.messages.outcome import (
    Cancelled,
    DeadReason,
    Done,
    Expired,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.testing.contract.kit.outcomes import EVERY, every_outcome
from headrace.testing.contract.kit.stand import FAILURE, LEASE, Stand, dead, kept, queue_and_group, retry


async def test_nothing_to_settle_is_nothing_to_answer(stand: Stand) -> None:
    assert await stand.backend.settle([]) == []


@every_outcome
async def test_the_holder_of_a_message_settles_it(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, outcome) is Verdict.KEPT
    assert (await stand.counts()).running == 0


@every_outcome
async def test_the_lease_ends_with_the_settlement(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    await stand.advance(LEASE + 1)
    assert await stand.reclaim() == []


# --- success ----------------------------------------------------------------------------------------------


async def test_success_without_a_result_leaves_nothing(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Done())
    assert await stand.backend.get(stand.stream, claim.id) is None
    assert await stand.claim() == []


async def test_success_with_a_result_keeps_it(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, kept(b"42"))
    record = await stand.look(claim.id)
    assert (record.status, record.result, record.note) == (JobStatus.SUCCEEDED, b"42", "")
    assert abs(record.ended_us - stand.now_us()) < 5 * SECOND


async def test_a_result_may_be_empty(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, kept(b""))
    assert (await stand.look(claim.id)).result == b""


async def test_a_result_that_could_not_be_kept_leaves_its_reason(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, kept(None, note="larger than 1 MiB"))
    record = await stand.look(claim.id)
    assert (record.status, record.result, record.note) == (JobStatus.SUCCEEDED, None, "larger than 1 MiB")


async def test_a_result_is_forgotten_when_its_time_has_passed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, kept(b"42", ttl=60))
    await stand.advance(50)
    assert await stand.status(claim.id) is JobStatus.SUCCEEDED
    await stand.advance(11)
    assert await stand.backend.get(stand.stream, claim.id) is None


async def test_a_result_kept_for_no_time_is_not_kept(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, kept(b"42", ttl=0)) is Verdict.KEPT
    assert await stand.backend.get(stand.stream, claim.id) is None


# --- not yet ----------------------------------------------------------------------------------------------


@queue_and_group
async def test_a_failed_message_is_retrying_until_it_is_due(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, retry(delay=10))
    record = await stand.look(claim.id)
    assert record.status is JobStatus.RETRYING
    assert abs(record.due_us - stand.now_us() - 10 * SECOND) < 5 * SECOND
    assert (await stand.counts()).retrying == 1
    assert (await stand.promote()).count == 0
    assert await stand.claim() == []


async def test_a_retried_message_comes_back_with_its_body_and_state(stand: Stand) -> None:
    await stand.add(body=b"the same")
    claim = await stand.claim_one()
    outcome = retry(delay=10)
    await stand.settle(claim, outcome)
    await stand.advance(11)
    await stand.promote()
    again = await stand.claim_one(claim.id)
    assert (again.body, again.state, again.state.attempt) == (b"the same", outcome.state, 2)


async def test_a_snoozed_message_is_scheduled(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Snoozed(FRESH, microseconds(10)))
    record = await stand.look(claim.id)
    assert (record.status, record.state) == (JobStatus.SCHEDULED, FRESH)
    assert (await stand.counts()).scheduled == 1


async def test_a_released_message_is_queued_at_once(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Released(FRESH.released()))
    assert await stand.status(claim.id) is JobStatus.QUEUED
    again = await stand.claim_one(claim.id, consumer="worker-2")
    assert (again.state.releases, again.state.attempt) == (1, 1)


async def test_a_message_released_with_a_delay_is_scheduled(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Released(FRESH.released(), microseconds(10)))
    assert await stand.status(claim.id) is JobStatus.SCHEDULED
    assert await stand.claim() == []


@pytest.mark.parametrize("outcome", [Retry(FRESH, 0), Snoozed(FRESH, 0), Released(FRESH, 0)], ids=repr)
async def test_a_delay_of_nothing_queues_at_once(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    assert await stand.status(claim.id) is JobStatus.QUEUED
    assert await stand.claim_ids() == [claim.id]


@pytest.mark.parametrize("kind", [Retry, Snoozed, Released])
async def test_a_state_is_stored_as_it_is_with_its_whole_trail(
    stand: Stand, kind: type[Retry | Snoozed | Released]
) -> None:
    state = FRESH
    for number in range(TRAIL_LENGTH + 5):
        state = state.failed(TrailEntry(number + 1, "timed out", f"worker-{number}", "läuft nicht"))
    claim = await stand.running()
    await stand.settle(claim, kind(state, microseconds(10)))
    assert (await stand.look(claim.id)).state == state
    await stand.advance(11)
    await stand.promote()
    assert (await stand.claim_one()).state == state


async def test_the_expiry_of_a_message_survives_a_retry(stand: Stand) -> None:
    await stand.add(lifetime=600)
    claim = await stand.claim_one()
    await stand.retry(claim, delay=10)
    await stand.advance(11)
    await stand.promote()
    assert (await stand.claim_one()).expires_us == claim.expires_us


# --- over -------------------------------------------------------------------------------------------------


async def test_a_dead_message_keeps_everything(stand: Stand) -> None:
    await stand.add(task="mail.send", body=b"to whom")
    claim = await stand.claim_one()
    outcome = dead(reason=DeadReason.UNRECOVERABLE)
    await stand.settle(claim, outcome)
    record = await stand.look(claim.id)
    assert (record.status, record.task, record.body) == (JobStatus.DEAD, "mail.send", b"to whom")
    assert (record.state, record.reason, record.failure) == (
        outcome.state,
        DeadReason.UNRECOVERABLE,
        FAILURE,
    )
    assert abs(record.ended_us - stand.now_us()) < 5 * SECOND
    assert (await stand.counts()).dead == 1


async def test_a_dead_message_does_not_run_again(stand: Stand) -> None:
    await stand.die(await stand.running())
    await stand.advance(1000)
    await stand.promote()
    assert await stand.reclaim() == []
    assert await stand.claim() == []


@queue_and_group
@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Cancelled(microseconds(60)), JobStatus.CANCELLED),
        (Expired(microseconds(60)), JobStatus.EXPIRED),
    ],
    ids=["cancelled", "expired"],
)
async def test_an_end_record_stays_for_its_time(stand: Stand, outcome: Outcome, status: JobStatus) -> None:
    claim = await stand.running()
    await stand.settle(claim, outcome)
    record = await stand.look(claim.id)
    assert record.status is status
    assert abs(record.ended_us - stand.now_us()) < 5 * SECOND
    await stand.advance(61)
    assert await stand.backend.get(stand.stream, claim.id) is None


@pytest.mark.parametrize("outcome", [Cancelled(0), Expired(0)], ids=["cancelled", "expired"])
async def test_an_end_record_of_no_time_is_no_end_record(stand: Stand, outcome: Outcome) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, outcome) is Verdict.KEPT
    assert await stand.backend.get(stand.stream, claim.id) is None


# --- batches ----------------------------------------------------------------------------------------------


async def test_each_settlement_of_a_batch_has_its_own_verdict(stand: Stand) -> None:
    lost, gone, plain, failed = await _four_running(stand)
    await stand.settle(lost, Released())
    await stand.settle_done(gone)
    settlements = [
        Settlement(lost, dead()),
        Settlement(plain, kept(b"42")),
        Settlement(gone, Done()),
        Settlement(failed, retry()),
    ]
    assert await stand.backend.settle(settlements) == [
        Verdict.LOST,
        Verdict.KEPT,
        Verdict.GONE,
        Verdict.KEPT,
    ]
    assert await stand.status(plain.id) is JobStatus.SUCCEEDED
    assert await stand.status(failed.id) is JobStatus.RETRYING
    assert await stand.status(lost.id) is JobStatus.QUEUED


async def test_every_kind_of_outcome_fits_into_one_batch(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in EVERY])
    settlements = [
        Settlement(claim, outcome) for claim, outcome in zip(await stand.claim(), EVERY.values(), strict=True)
    ]
    assert await stand.backend.settle(settlements) == [Verdict.KEPT] * len(EVERY)
    counts = await stand.counts()
    assert (counts.queued, counts.running, counts.scheduled, counts.retrying, counts.dead) == (1, 0, 2, 1, 1)


async def test_a_batch_may_settle_claims_of_several_streams(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    sources = [stand.source, elsewhere]
    for source in sources * 3:
        await stand.add(source=source)
    claims = await stand.claim(sources=sources)
    settlements = [Settlement(claim, kept(claim.id.encode())) for claim in claims]
    assert await stand.backend.settle(settlements) == [Verdict.KEPT] * 6
    for claim in claims:
        assert (await stand.look(claim.id, source=claim.whole)).result == claim.id.encode()


async def test_a_claim_twice_in_a_batch_counts_once(stand: Stand) -> None:
    claim = await stand.running()
    settlements = [Settlement(claim, kept(b"first")), Settlement(claim, kept(b"second"))]
    assert await stand.backend.settle(settlements) == [Verdict.KEPT, Verdict.GONE]
    assert (await stand.look(claim.id)).result == b"first"


@pytest.mark.whole("one claim need not empty several parts")
async def test_five_hundred_settlements_are_one_batch(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(500)])
    claims = await stand.claim(500)
    verdicts = await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
    assert verdicts == [Verdict.KEPT] * 500
    assert (await stand.counts()).running == 0


async def _four_running(stand: Stand) -> list[Claim]:
    await stand.append(*[stand.message() for _ in range(4)])
    return await stand.claim()
