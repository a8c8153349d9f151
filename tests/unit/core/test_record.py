"""Statuses, pages and what users are told of a job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace import JobStatus, Page
from headrace.core.history.ended_job import EndedJob, encode_ended, with_history
from headrace.core.history.entry import HistoryEntry
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    Envelope,
    Stream,
    TrailEntry,
    encode_envelope,
)
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.job_info import job_info
from headrace.core.records.record import Record, moment

STREAM = Stream("queue", "mails")


@pytest.mark.parametrize("status", ["succeeded", "dead", "cancelled", "expired", "unknown"])
def test_a_job_is_over_when_nothing_more_happens_by_itself(status: str) -> None:
    assert JobStatus(status).over


@pytest.mark.parametrize("status", ["scheduled", "queued", "running", "retrying"])
def test_all_other_jobs_are_not_over(status: str) -> None:
    assert not JobStatus(status).over


def test_a_page_is_iterable_and_has_a_length() -> None:
    page = Page((1, 2, 3), "next")
    assert list(page) == [1, 2, 3]
    assert len(page) == 3
    assert page[0] == 1
    assert page.cursor == "next"


def test_stored_times_become_aware_datetimes() -> None:
    assert moment(1_500_000) == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert moment(0) is None


def test_the_info_of_a_running_job_counts_the_run_that_is_under_way() -> None:
    state = FRESH.failed(TrailEntry(1, "failed", "worker-1", "ValueError: no"))
    info = job_info(Record(STREAM, "id", JobStatus.RUNNING, state=state, claimed_us=5_000_000))
    assert (info.attempts, info.failures) == (2, 1)
    assert info.started_at == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert info.error == "ValueError: no"


def test_the_info_of_a_dead_job_says_why() -> None:
    failure = Failure("ValueError", "no", "Traceback…")
    record = Record(STREAM, "id", JobStatus.DEAD, reason=DeadReason.EXHAUSTED, failure=failure)
    info = job_info(record)
    assert (info.reason, info.error_type, info.error, info.traceback) == (
        "exhausted",
        "ValueError",
        "no",
        "Traceback…",
    )


def test_the_info_says_when_a_job_was_enqueued() -> None:
    body = encode_envelope(Envelope(ENVELOPE_VERSION, "id", "task", 7_000_000, None, None, b""))
    assert job_info(Record(STREAM, "id", JobStatus.QUEUED, body=body)).enqueued_at == moment(7_000_000)


def test_a_body_that_cannot_be_read_does_not_hide_the_rest() -> None:
    info = job_info(Record(STREAM, "id", JobStatus.QUEUED, task="send", body=b"\xff\xff"))
    assert info.task == "send"
    assert info.enqueued_at is None


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.DEAD])
def test_no_run_ends_before_it_begins_when_the_store_wrote_its_end_first(status: JobStatus) -> None:
    trail = FRESH.failed(TrailEntry(8_000_000, "failed", "worker-1", "ValueError: no"))
    state = trail if status is JobStatus.DEAD else FRESH
    record = Record(STREAM, "id", status, state=state, ended_us=8_000_000)
    content = encode_ended(EndedJob(started_us=8_500_000, worker="worker-1"))
    info = job_info(with_history(record, HistoryEntry("id", "send", status.value, 9_000_000, content)))
    assert info.started_at is not None
    assert info.ended_at is not None
    assert info.ran == (info.ended_at - info.started_at).total_seconds() == 0.5
    assert info.runs[-1].ended_at == info.ended_at
