"""The log lines of a message: a run reports them, the state keeps them, and they go with the message."""

from __future__ import annotations

import pytest

from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.job_log import LINE_BYTES, LOG_BYTES, NO_LOG, JobLog, LogLine
from headrace.core.messages.message import FRESH, TrailEntry, UniqueKey
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Kept,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import FAILURE, HOUR_US, LEASE, Stand, kept

FIRST = JobLog((LogLine(1, 5_000_001, "info", "reading"), LogLine(1, 5_000_002, "warning", "slow")), 3)
SECOND = JobLog((LogLine(2, 6_000_000, "error", "ünïcödé \x00 🚰\n  and lines"),))
LOGGED = FRESH.logged(FIRST)
FAILED = LOGGED.failed(TrailEntry(1, "failed", "worker-1", "no such row"))


async def running_and_writing(stand: Stand, log: JobLog = FIRST) -> Claim:
    claim = await stand.running()
    await stand.backend.report_progress([Report(claim, log=log)])
    return claim


async def test_what_a_run_wrote_is_shown_while_it_runs(stand: Stand) -> None:
    claim = await running_and_writing(stand)
    other = await stand.other()
    record = await other.get(stand.stream, claim.id)
    assert record is not None
    assert (record.log, record.progress, record.state) == (FIRST, None, FRESH)
    [listed] = await other.messages(stand.stream, status=JobStatus.RUNNING)
    assert listed.log == FIRST


async def test_progress_and_log_come_together_and_the_last_report_counts(stand: Stand) -> None:
    claim = await running_and_writing(stand)
    await stand.backend.report_progress([Report(claim, 0.5, "half", SECOND)])
    record = await stand.look(claim.id)
    assert record.progress is not None
    assert (record.progress.fraction, record.progress.text, record.log) == (0.5, "half", SECOND)
    await stand.backend.report_progress([Report(claim, 0.75, "more")])
    assert (await stand.look(claim.id)).log == NO_LOG


async def test_full_logs_of_many_runs_are_reported_together(stand: Stand) -> None:
    line = LogLine(1, 1, "info", "x" * LINE_BYTES)
    log = JobLog((line,) * (LOG_BYTES // line.size))
    await stand.append(*[stand.message() for _ in range(100)])
    claims = await stand.claim(100)
    await stand.backend.report_progress([Report(claim, 0.5, claim.id, log) for claim in claims])
    for claim in claims[::33]:
        record = await stand.look(claim.id)
        assert (record.log, record.progress and record.progress.text) == (log, claim.id)


async def test_the_log_of_a_lost_claim_changes_nothing(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    await stand.backend.report_progress([Report(holder, log=SECOND)])
    await stand.backend.report_progress([Report(former, log=FIRST)])
    assert (await stand.look(former.id)).log == SECOND


async def test_what_a_run_wrote_before_it_crashed_stays_with_the_message(stand: Stand) -> None:
    claim = await running_and_writing(stand)
    await stand.lose(claim)
    record = await stand.look(claim.id)
    assert (record.status, record.state.log, record.log) == (JobStatus.QUEUED, FIRST, NO_LOG)
    again = await stand.claim_one(claim.id, consumer="worker-2")
    assert again.state.log == FIRST
    await stand.backend.report_progress([Report(again, log=SECOND)])
    record = await stand.look(claim.id)
    assert (record.state.log, record.log) == (FIRST, SECOND)
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    await stand.claim_one(claim.id)
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    record = await stand.look(claim.id)
    assert (record.status, record.reason) == (JobStatus.DEAD, DeadReason.CRASHED)
    assert record.state.log == FIRST.then(SECOND)


async def test_the_logs_of_many_that_crashed_go_to_their_own_messages(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(20)])
    claims = await stand.claim(20)
    logs = {claim.id: JobLog((LogLine(1, 1, "info", claim.id),)) for claim in claims[::2]}
    await stand.backend.report_progress(
        [Report(each, log=logs[each.id]) for each in claims if each.id in logs]
    )
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    for claim in claims:
        assert (await stand.look(claim.id)).state.log == logs.get(claim.id, NO_LOG)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Retry(FAILED, microseconds(10)), JobStatus.RETRYING),
        (Retry(FAILED, 0), JobStatus.QUEUED),
        (Snoozed(LOGGED, microseconds(10)), JobStatus.SCHEDULED),
        (Released(LOGGED), JobStatus.QUEUED),
        (Dead(FAILED, DeadReason.EXHAUSTED, FAILURE), JobStatus.DEAD),
        (Done(Kept(b"42", HOUR_US), LOGGED), JobStatus.SUCCEEDED),
        (Done(Kept(None, HOUR_US, "too large"), LOGGED), JobStatus.SUCCEEDED),
        (Cancelled(HOUR_US, LOGGED), JobStatus.CANCELLED),
    ],
    ids=lambda value: value if isinstance(value, JobStatus) else type(value).__name__,
)
@pytest.mark.parametrize("unique", [None, UniqueKey("report:7")], ids=["plain", "unique"])
async def test_every_outcome_keeps_it(
    stand: Stand, outcome: Outcome, status: JobStatus, unique: UniqueKey | None
) -> None:
    claim = await stand.running(unique=unique)
    await stand.backend.report_progress([Report(claim, 0.5, log=SECOND)])
    await stand.settle(claim, outcome)
    record = await stand.look(claim.id)
    assert (record.status, record.state.log, record.log) == (status, FIRST, NO_LOG)


async def test_a_second_success_adds_to_the_log_of_the_failure_before(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Retry(FAILED, 0))
    again = await stand.claim_one(claim.id)
    await stand.settle(again, Done(Kept(b"42", HOUR_US), again.state.logged(SECOND)))
    record = await stand.look(claim.id)
    assert (record.state.log, record.state.failures, record.result) == (FIRST.then(SECOND), 1, b"42")


async def test_end_records_without_a_log_keep_the_state_that_was_there(stand: Stand) -> None:
    for outcome in (kept(b"42"), Cancelled(HOUR_US)):
        claim = await stand.running()
        await stand.settle(claim, Retry(FAILED, 0))
        await stand.settle(await stand.claim_one(claim.id), outcome)
        assert (await stand.look(claim.id)).state == FAILED


async def test_without_an_end_record_nothing_of_it_is_left(stand: Stand) -> None:
    claim = await running_and_writing(stand)
    await stand.settle(claim, Done(None, LOGGED))
    assert await stand.backend.get(stand.stream, claim.id) is None
    await stand.running(claim.id)
    record = await stand.look(claim.id)
    assert (record.state, record.log) == (FRESH, NO_LOG)


async def test_the_end_record_takes_it_along(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Done(Kept(b"42", microseconds(60)), LOGGED))
    await stand.advance(61)
    assert await stand.backend.get(stand.stream, claim.id) is None


async def test_a_replay_begins_without_it(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Dead(FAILED, DeadReason.EXHAUSTED, FAILURE))
    await stand.backend.replay(stand.stream, [claim.id])
    assert (await stand.claim_one(claim.id)).state == FRESH
