"""Turns a store's record into a job as users see it in `info()`, listings and pages."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.core.messages.job_log import LogLine
from headrace.core.messages.message import GIVEN_KEY, PRIORITIES, PriorityName, TrailEntry, decode_envelope
from headrace.core.runtime.clock import datetime_of
from headrace.core.values.decoding import DECODE_ERRORS

from .record import JobStatus, Progress, Record, moment

_PRIORITY_NAMES: dict[int, PriorityName] = {number: name for name, number in PRIORITIES.items()}


class JobProgress(msgspec.Struct, frozen=True):
    """How far a running job has come: a fraction from 0 to 1, a few words, and when it reported that."""

    fraction: float
    text: str
    at: datetime


class JobInfo(msgspec.Struct, frozen=True):
    """What is known of a job now, or of an event in a group, which has a `topic` and a `group` in place of
    the `queue`. `attempts` counts runs that were begun; a hand-back undoes one.

    `log` has the latest lines that its attempts wrote, if the app keeps them (`App(job_logs=…)`);
    `log_dropped` is how many lines before them were left out."""

    id: str
    queue: str
    task: str
    status: JobStatus
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    releases: int = 0
    priority: PriorityName = "normal"
    enqueued_at: datetime | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    worker: str = ""
    error: str = ""
    error_type: str = ""
    traceback: str = ""
    reason: str = ""
    note: str = ""
    trail: tuple[TrailEntry, ...] = ()
    progress: JobProgress | None = None
    topic: str | None = None
    group: str | None = None
    unique_key: str = ""
    log: tuple[LogLine, ...] = ()
    log_dropped: int = 0


def job_info(record: Record) -> JobInfo:
    """A store's record as users see it."""
    state, failure, stream = record.state, record.failure, record.stream
    of_group = stream.kind == "group"
    begun = record.status in (JobStatus.RUNNING, JobStatus.SUCCEEDED)
    log = state.log.then(record.log)
    return JobInfo(
        id=record.id,
        queue="" if of_group else stream.name,
        task=record.task,
        status=record.status,
        attempts=state.failures + state.crashes + (1 if begun else 0),
        failures=state.failures,
        crashes=state.crashes,
        releases=state.releases,
        priority=_PRIORITY_NAMES.get(record.priority, "normal"),
        enqueued_at=_enqueued_at(record),
        due_at=moment(record.due_us),
        started_at=moment(_started_us(record)),
        ended_at=moment(record.ended_us),
        worker=record.worker,
        error=failure.error if failure else _last_error(record),
        error_type=failure.error_type if failure else "",
        traceback=failure.traceback if failure else "",
        reason=record.reason.value if record.reason else "",
        note=record.note,
        trail=state.trail,
        progress=_progress(record.progress),
        topic=stream.topic if of_group else None,
        group=stream.group if of_group else None,
        unique_key=record.unique_key.removeprefix(GIVEN_KEY),
        log=log.lines,
        log_dropped=log.dropped,
    )


def newest_first(job: JobInfo) -> tuple[bool, float]:
    """The sort key for a page of a listing: running jobs first, then the newest. Stores list by state."""
    known = job.enqueued_at or job.ended_at
    return job.status is not JobStatus.RUNNING, -known.timestamp() if known else 0.0


def _progress(progress: Progress | None) -> JobProgress | None:
    if progress is None:
        return None
    fraction = min(1.0, max(0.0, progress.fraction))  # another program may have stored anything, also NaN
    return JobProgress(fraction, progress.text, datetime_of(progress.at_us))


def _last_error(record: Record) -> str:
    """The last error of a job; a job that succeeded has none, even if it failed before."""
    trail = record.state.trail
    return trail[-1].text if trail and record.status is not JobStatus.SUCCEEDED else ""


def _enqueued_at(record: Record) -> datetime | None:
    """When the producer enqueued it, by the producer's clock. That clock may be ahead of the store's, by
    which all later times are set: so this is never later than the first of those."""
    if record.body is None:
        return None
    try:
        enqueued_us = decode_envelope(record.body).enqueued_us
    except DECODE_ERRORS:
        return None
    trail_us = record.state.trail[0].at_us if record.state.trail else 0
    later = (at_us for at_us in (trail_us, record.claimed_us, record.ended_us) if at_us)
    return moment(min([enqueued_us, *later]))


def _started_us(record: Record) -> int:
    """The start of the run, not before the last failure. A store may round it down to a millisecond."""
    if not record.claimed_us or not record.state.trail:
        return record.claimed_us
    return max(record.claimed_us, record.state.trail[-1].at_us)
