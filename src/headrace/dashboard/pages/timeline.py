"""The timeline of a job, drawn to scale."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from headrace.core.records.job_info import JobInfo
from headrace.core.records.record import JobStatus, moment

#: The colours of events; all others are plain.
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

#: The width of a run that is too short to be seen.
NARROWEST = 0.5


class TimelineEvent(msgspec.Struct, frozen=True):
    """Something that happened, or will. `position` is its place on the whole timeline (0 to 100)."""

    at: datetime
    what: str
    worker: str = ""
    text: str = ""
    position: float = 0.0
    since: float | None = None  # seconds after the event before

    @property
    def tone(self) -> str:
        return _TONES.get(self.what, "plain")


class RunBar(msgspec.Struct, frozen=True):
    """The time of one run, in parts of the whole timeline (0 to 100)."""

    start: float
    width: float
    tone: str


class Timeline(msgspec.Struct, frozen=True):
    events: tuple[TimelineEvent, ...]
    runs: tuple[RunBar, ...]
    seconds: float


def timeline(job: JobInfo, now: datetime | None = None) -> Timeline:
    """The known events of a job, in order."""
    now = now or datetime.now(UTC)
    events = _events(job)
    if not events:
        return Timeline((), (), 0.0)
    first, last = events[0].at, events[-1].at
    if not job.status.over:
        last = max(last, now)
    whole = (last - first).total_seconds()

    def part(at: datetime) -> float:
        return round(100 * (at - first).total_seconds() / (whole or 1.0), 2)

    placed = [msgspec.structs.replace(each, position=part(each.at)) for each in events]
    for index, (before, event) in enumerate(pairwise(placed), 1):
        since = (event.at - before.at).total_seconds()
        placed[index] = msgspec.structs.replace(event, since=since)
    bars = []
    for run in job.runs:
        if run.started_at is not None:
            end = run.ended_at or (now if job.status is JobStatus.RUNNING else run.started_at)
            start = min(part(run.started_at), 100 - NARROWEST)
            bars.append(RunBar(start, max(NARROWEST, part(end) - start), "bad" if run.error else "good"))
    return Timeline(tuple(placed), tuple(bars), whole)


def _events(job: JobInfo) -> list[TimelineEvent]:
    """In the order of a job's life, because times may be equal."""
    found = [
        *_known("enqueued" if job.topic is None else "occurred", job.enqueued_at),
        *(
            TimelineEvent(at, each.what, each.worker, each.text)
            for each in job.trail
            if (at := moment(each.at_us)) is not None
        ),
        # The last run of a dead job is in the trail.
        *(_known("started", job.started_at, job.worker) if job.status is not JobStatus.DEAD else ()),
        *_known(str(job.status), job.ended_at, text=job.reason),
    ]
    # The due time of a job that runs already is over.
    if job.status in (JobStatus.SCHEDULED, JobStatus.RETRYING):
        found += _known("due", job.due_at)
    return found


def _known(what: str, at: datetime | None, worker: str = "", text: str = "") -> list[TimelineEvent]:
    return [] if at is None else [TimelineEvent(at, what, worker, text)]
