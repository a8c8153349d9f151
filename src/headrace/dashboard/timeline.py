"""The life of a job, from what is kept of it, drawn to scale."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from headrace.core.info import JobInfo
from headrace.core.record import JobStatus, moment

#: Which colours a thing that happened has; all others have the plain one.
_TONES = {
    "failed": "bad",
    "timed out": "bad",
    "crashed": "bad",
    "dead": "bad",
    "started": "good",
    "succeeded": "good",
    "due": "soft",
    "now": "soft",
}


class Moment(msgspec.Struct, frozen=True):
    """Something that happened, or will, and at which part of the whole span (0 to 100)."""

    at: datetime
    what: str
    worker: str = ""
    text: str = ""
    place: float = 0.0
    since: float | None = None  # seconds after the one before

    @property
    def tone(self) -> str:
        return _TONES.get(self.what, "plain")


class Bar(msgspec.Struct, frozen=True):
    """A stretch of running, in parts of the whole span."""

    start: float
    width: float


class Timeline(msgspec.Struct, frozen=True):
    moments: tuple[Moment, ...]
    running: Bar | None
    seconds: float


def timeline(job: JobInfo, now: datetime | None = None) -> Timeline:
    """What is kept of a job's life, in order."""
    now = now or datetime.now(UTC)
    moments = _happened(job)
    if not moments:
        return Timeline((), None, 0.0)
    first, last = moments[0].at, moments[-1].at
    if not job.status.over:
        last = max(last, now)
    whole = (last - first).total_seconds()

    def part(at: datetime) -> float:
        return round(100 * (at - first).total_seconds() / (whole or 1.0), 2)

    placed = [msgspec.structs.replace(each, place=part(each.at)) for each in moments]
    for place in range(1, len(placed)):
        since = (placed[place].at - placed[place - 1].at).total_seconds()
        placed[place] = msgspec.structs.replace(placed[place], since=since)
    bar = None
    if job.started_at is not None:
        end = job.ended_at or (now if job.status is JobStatus.RUNNING else job.started_at)
        bar = Bar(part(job.started_at), max(0.5, part(max(end, job.started_at)) - part(job.started_at)))
    return Timeline(tuple(placed), bar, whole)


def _happened(job: JobInfo) -> list[Moment]:
    """In the order in which a job meets them: times may be equal."""
    found = [
        *_known("enqueued" if job.topic is None else "occurred", job.enqueued_at),
        *(
            Moment(at, each.what, each.worker, each.text)
            for each in job.trail
            if (at := moment(each.at_us)) is not None
        ),
        *_known("started", job.started_at, job.worker),
        *_known(str(job.status), job.ended_at, text=job.reason),
    ]
    # A due time from before, of a job that runs by now, says nothing more.
    if job.status in (JobStatus.SCHEDULED, JobStatus.RETRYING):
        found += _known("due", job.due_at)
    return found


def _known(what: str, at: datetime | None, worker: str = "", text: str = "") -> list[Moment]:
    return [] if at is None else [Moment(at, what, worker, text)]
