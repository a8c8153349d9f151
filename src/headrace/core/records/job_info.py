"""Turns a store's record into a job as users see it in `info()`, listings and pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.core.encoding.codec import AppCodec
from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.job_log import LogLine
from headrace.core.messages.message import (
    GIVEN_KEY,
    PRIORITIES,
    Envelope,
    PriorityName,
    TrailEntry,
    decode_envelope,
)
from headrace.core.runtime.clock import datetime_of

from .plain_arguments import PlainArguments, plain_arguments
from .record import JobStatus, Progress, Record, moment

#: Bytes of a message up to which a listing shows its arguments.
LISTED_BODY = 64 * 1024

#: The entries of a trail that are runs.
_RUNS = frozenset({"failed", "timed out", "crashed"})

NOTHING = PlainArguments()

_PRIORITY_NAMES: dict[int, PriorityName] = {number: name for name, number in PRIORITIES.items()}


class JobProgress(msgspec.Struct, frozen=True):
    """How far a running job has come.

    - `fraction`: from 0 to 1
    - `text`: what it does
    - `at`: when it reported this
    """

    fraction: float
    text: str
    at: datetime


class RunInfo(msgspec.Struct, frozen=True):
    """One run of a job. Of a run whose worker died, only the end is known: when that was found out.

    - `number`: which run it is; the first one is 1
    - `worker`: the worker that ran it
    - `started_at`: when it began
    - `ended_at`: when it ended; None: it has not ended
    - `error`: how it failed, in one line; empty: it did not fail
    """

    number: int
    worker: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str = ""


class JobInfo(msgspec.Struct, frozen=True):
    """What is known of a job now, or of an event in a group.

    - `id`: its id
    - `queue`: its queue; of an event empty
    - `task`: the name of its task; of an event its kind
    - `status`: a `JobStatus`
    - `attempts`: runs that were begun; a hand-back undoes one
    - `failures`: runs that failed
    - `crashes`: runs that ended with the death of their worker
    - `releases`: how often a worker handed it back
    - `priority`: `"high"`, `"normal"` or `"low"`
    - `enqueued_at`: when it was enqueued
    - `due_at`: when it runs next, if it is scheduled or retrying
    - `started_at`: when its latest run began
    - `ended_at`: when it ended
    - `worker`: the worker of its latest run
    - `error`: the text of its last error
    - `error_type`: the class of its last error
    - `traceback`: the traceback of its last error
    - `reason`: why it is dead, a `DeadReason`: `exhausted`, `unrecoverable`, `crashed`, `invalid` …
    - `note`: what else is to be said, such as why a result was not kept
    - `trail`: what happened to it: `at`, `what`, `worker`, `text` each
    - `progress`: its last progress report
    - `topic`: of an event: its topic
    - `group`: of an event: the group
    - `unique_key`: its unique key, if it was given one
    - `log`: the latest lines that it logged, if the app keeps them (`App(job_logs=…)`)
    - `log_dropped`: how many lines before them were left out
    - `args`, `kwargs`: its arguments as plain data, with `***` for each secret
    - `waited`: the seconds from the moment when it could first run until it began
    - `ran`: the seconds of its last run
    - `runs`: its runs, the first one first; only the latest are kept
    - `waiting_for`: the limit that it waits for; `paused:TASK` while its task is paused; `order key` while an
      earlier job with its order key is not over
    """

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
    waiting_for: str = ""
    log: tuple[LogLine, ...] = ()
    log_dropped: int = 0
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    waited: float | None = None
    ran: float | None = None
    runs: tuple[RunInfo, ...] = ()


def job_info(record: Record, codec: AppCodec | None = None) -> JobInfo:
    """A store's record as users see it. `codec` opens its arguments."""
    state, failure, stream = record.state, record.failure, record.stream
    of_group = stream.kind == "group"
    begun = record.status in (JobStatus.RUNNING, JobStatus.SUCCEEDED)
    log = state.log.then(record.log)
    envelope = None if of_group else _envelope(record)
    arguments = NOTHING if envelope is None else plain_arguments(record.id, envelope, codec)
    enqueued_us = _enqueued_us(record)
    runs = runs_of(record)
    started_us = _started_us(record)
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
        enqueued_at=moment(enqueued_us),
        due_at=moment(record.due_us),
        started_at=moment(started_us),
        ended_at=moment(record.ended_us),
        worker=record.worker or (runs[-1].worker if runs and record.status.over else ""),
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
        waiting_for=record.waiting_for,
        log=log.lines,
        log_dropped=log.dropped,
        args=arguments.args,
        kwargs=arguments.kwargs,
        waited=_waited(envelope, enqueued_us, runs),
        ran=_ran(record, runs),
        runs=runs,
    )


def listed_info(record: Record, codec: AppCodec | None = None) -> JobInfo:
    """A record in a listing. Large arguments are left out: a page has many jobs."""
    if record.body is None or len(record.body) <= LISTED_BODY:
        return job_info(record, codec)
    arguments: dict[str, Any] = {"args": (), "kwargs": {}}
    return msgspec.structs.replace(job_info(record), **arguments)


def runs_of(record: Record) -> tuple[RunInfo, ...]:
    """The runs of a job, as its trail, its claim and the history have them."""
    state, status = record.state, record.status
    failed = [entry for entry in state.trail if entry.what in _RUNS]
    first = state.failures + state.crashes - len(failed) + 1
    runs = [
        RunInfo(
            max(number, 1),
            entry.worker,
            moment(entry.began_us),
            moment(entry.at_us),
            entry.text or entry.what,
        )
        for number, entry in enumerate(failed, first)
    ]
    if status is JobStatus.RUNNING:
        runs.append(RunInfo(state.attempt, record.worker, moment(_started_us(record))))
    elif record.started_us and status in (JobStatus.SUCCEEDED, JobStatus.CANCELLED):
        error = "cancelled" if status is JobStatus.CANCELLED else ""
        started, ended = moment(record.started_us), moment(record.ended_us)
        runs.append(RunInfo(state.attempt, record.worker, started, ended, error))
    elif failed and record.started_us:
        # The history knows when the run itself began, the trail when it ended. Entries of earlier versions
        # may begin later than that.
        ended_us = record.ended_us if record.started_us > failed[-1].at_us else failed[-1].at_us
        started, ended = moment(record.started_us), moment(ended_us)
        runs[-1] = msgspec.structs.replace(runs[-1], started_at=started, ended_at=ended)
    return tuple(runs)


def _waited(envelope: Envelope | None, enqueued_us: int, runs: tuple[RunInfo, ...]) -> float | None:
    """Seconds from the moment the job could first run until its first run began."""
    first = next((run for run in runs if run.number == 1), None)
    if envelope is None or first is None or first.started_at is None:
        return None
    due_us = max(enqueued_us, envelope.overrides.due_us if envelope.overrides else 0)
    return max(0.0, (first.started_at - datetime_of(due_us)).total_seconds())


def _ran(record: Record, runs: tuple[RunInfo, ...]) -> float | None:
    """Seconds that the last run took, of a job that is over."""
    last = runs[-1] if runs and record.status.over else None
    if last is None or last.started_at is None or last.ended_at is None:
        return None
    return max(0.0, (last.ended_at - last.started_at).total_seconds())


def newest_first(job: JobInfo) -> tuple[bool, float]:
    """The sort key for a page of a listing: running jobs first, then the newest. Stores list by state."""
    known = job.enqueued_at or job.ended_at
    return job.status is not JobStatus.RUNNING, -known.timestamp() if known else 0.0


def has_argument(job: JobInfo, text: str) -> bool:
    """Whether the arguments contain a value that is written so: `123` is a number or a text."""
    return _contains((job.args, job.kwargs), text)


def _contains(value: object, text: str) -> bool:
    if isinstance(value, list | tuple):
        return any(_contains(each, text) for each in value)
    if isinstance(value, dict):
        return any(_contains(each, text) for each in value.values())
    return value is not None and str(value) == text


def _progress(progress: Progress | None) -> JobProgress | None:
    if progress is None:
        return None
    fraction = min(1.0, max(0.0, progress.fraction))  # another program may have stored anything, also NaN
    return JobProgress(fraction, progress.text, datetime_of(progress.at_us))


def _last_error(record: Record) -> str:
    """The last error of a job; a job that succeeded has none, even if it failed before."""
    trail = record.state.trail
    return trail[-1].text if trail and record.status is not JobStatus.SUCCEEDED else ""


def _envelope(record: Record) -> Envelope | None:
    try:
        return decode_envelope(record.body) if record.body is not None else None
    except DECODE_ERRORS:
        return None


def _enqueued_us(record: Record) -> int:
    """When the producer enqueued it, by the producer's clock; 0: it is not known. That clock may be ahead of
    the store's, by which all later times are set: so this is never later than the first of those."""
    envelope = _envelope(record)
    if envelope is None:
        return 0
    entry = record.state.trail[0] if record.state.trail else None
    trail_us = (entry.began_us or entry.at_us) if entry else 0
    later = (at_us for at_us in (trail_us, record.claimed_us, record.started_us, record.ended_us) if at_us)
    return min([envelope.enqueued_us, *later])


def _started_us(record: Record) -> int:
    """The start of the run, not before the last failure. A store may round it down to a millisecond."""
    if record.started_us:
        return record.started_us
    if record.status is JobStatus.DEAD and record.state.trail:
        return record.claimed_us or record.state.trail[-1].began_us
    if not record.claimed_us or not record.state.trail:
        return record.claimed_us
    return max(record.claimed_us, record.state.trail[-1].at_us)
