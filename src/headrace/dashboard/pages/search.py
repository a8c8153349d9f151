"""Searches the jobs of a place, within limits of number and time, and says how far it got."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import msgspec

from headrace.admin.place import Place
from headrace.app import App
from headrace.core.records.job_info import JobInfo, has_argument
from headrace.core.records.record import JobStatus
from headrace.core.values.times import parse_time

#: Jobs on a page.
PAGE: Final = 50

#: Jobs that one search reads, seconds that it may take before the user continues it, and jobs read at once.
SCAN: Final = 50_000
SECONDS: Final = 0.7
STEP: Final = 500

STATES: Final = ("queued", "running", "scheduled", "retrying", "dead", "succeeded", "cancelled", "expired")


class Search(msgspec.Struct, frozen=True):
    """What a user searches for. `text` is a part of the id, task, unique key, error or worker, or a whole
    argument. `waiting_for` is the name of a limit that holds jobs back."""

    state: str = ""
    text: str = ""
    since: str = ""
    until: str = ""
    waiting_for: str = ""

    @property
    def plain(self) -> bool:
        """Whether it is a plain listing: the store itself lists by state."""
        return not (self.text or self.since or self.until or self.waiting_for)

    @property
    def status(self) -> JobStatus | None:
        return JobStatus(self.state) if self.state in STATES else None


class SearchResult(msgspec.Struct, frozen=True):
    """A page of jobs, the number of jobs searched for it, and where to continue."""

    jobs: tuple[JobInfo, ...]
    searched: int
    cursor: str | None


async def find(app: App, place: Place, search: Search, cursor: str | None) -> SearchResult:
    if search.plain:
        page = await app.admin.jobs(**place.options, state=search.status, cursor=cursor, limit=PAGE)
        return SearchResult(page.items, len(page), page.cursor)
    if cursor is None and search.text and not search.waiting_for:
        known = await _known(app, place, search.text)
        if known is not None:
            return SearchResult((known,), 1, None)
    return await _scan(app, place, search, cursor)


async def _known(app: App, place: Place, text: str) -> JobInfo | None:
    """The job with this id, or the job that holds this unique key: the store finds both directly."""
    known = await app.admin.job(text, **place.options)
    if known is None and place.queue is not None:
        known = await app.admin.holder(text, queue=place.queue)
    return known


async def _scan(app: App, place: Place, search: Search, cursor: str | None) -> SearchResult:
    job_filter = JobFilter(search)
    found: list[JobInfo] = []
    searched, until = 0, time.monotonic() + SECONDS
    while True:
        # A search that finds much takes small steps, because it shows all that its last step found.
        step = PAGE if 10 * len(found) >= searched else STEP
        page = await app.admin.jobs(**place.options, state=search.status, cursor=cursor, limit=step)
        found += filter(job_filter.passes, page)
        searched += len(page)
        cursor = page.cursor
        if cursor is None or len(found) >= PAGE or searched >= SCAN or time.monotonic() > until:
            return SearchResult(tuple(found), searched, cursor)


class JobFilter:
    def __init__(self, search: Search) -> None:
        self._argument = search.text
        self._text = search.text.casefold()
        self._waiting_for = search.waiting_for
        self._since = parse_time(search.since, UTC) if search.since else None
        self._until = parse_time(search.until, UTC) if search.until else None

    def passes(self, job: JobInfo) -> bool:
        if self._waiting_for and job.waiting_for != self._waiting_for:
            return False
        return self._names(job) and self._is_within(job.enqueued_at or job.ended_at)

    def _names(self, job: JobInfo) -> bool:
        if not self._text:
            return True
        texts = (job.id, job.task, job.unique_key, job.error, job.error_type, job.worker, job.reason)
        return any(self._text in text.casefold() for text in texts) or has_argument(job, self._argument)

    def _is_within(self, at: datetime | None) -> bool:
        if self._since is None and self._until is None:
            return True
        if at is None:
            return False
        return (self._since is None or at >= self._since) and (self._until is None or at <= self._until)
