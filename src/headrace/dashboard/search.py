"""Looks through the jobs of a place, within bounds of number and time, and says how far it came."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import msgspec

from headrace.app import App
from headrace.core.info import JobInfo
from headrace.core.record import JobStatus
from headrace.core.times import parse_time

from .place import Place

#: Jobs on a page.
PAGE: Final = 50

#: Jobs that one search looks at, and seconds that it takes, before it asks whether to go on.
SCAN: Final = 50_000
SECONDS: Final = 0.7
STEP: Final = 500

STATES: Final = ("queued", "running", "scheduled", "retrying", "dead", "succeeded", "cancelled", "expired")


class Search(msgspec.Struct, frozen=True):
    """What is looked for. `text` is a part of the id, task, unique key, error or worker."""

    state: str = ""
    text: str = ""
    since: str = ""
    until: str = ""

    @property
    def plain(self) -> bool:
        """Whether nothing need be looked through: the store lists by state."""
        return not (self.text or self.since or self.until)

    @property
    def status(self) -> JobStatus | None:
        return JobStatus(self.state) if self.state in STATES else None


class Found(msgspec.Struct, frozen=True):
    """A page of jobs, how many were looked at for it, and where to go on."""

    jobs: tuple[JobInfo, ...]
    looked: int
    cursor: str | None


async def find(app: App, place: Place, search: Search, cursor: str | None) -> Found:
    if search.plain:
        page = await app.admin.jobs(**place.options, state=search.status, cursor=cursor, limit=PAGE)
        return Found(page.items, len(page), page.cursor)
    if cursor is None and search.text:
        known = await _known(app, place, search.text)
        if known is not None:
            return Found((known,), 1, None)
    return await _scan(app, place, search, cursor)


async def _known(app: App, place: Place, text: str) -> JobInfo | None:
    """The job whose id this is, or who holds it as its unique key: the store finds both at once."""
    known = await app.admin.job(text, **place.options)
    if known is None and place.queue is not None:
        known = await app.admin.holder(text, queue=place.queue)
    return known


async def _scan(app: App, place: Place, search: Search, cursor: str | None) -> Found:
    sieve = Sieve(search)
    found: list[JobInfo] = []
    looked, until = 0, time.monotonic() + SECONDS
    while True:
        page = await app.admin.jobs(**place.options, state=search.status, cursor=cursor, limit=STEP)
        fitting = [job for job in page if sieve.passes(job)]
        found += fitting
        looked += len(page)
        cursor = page.cursor
        if cursor is None or len(found) >= PAGE or looked >= SCAN or time.monotonic() > until:
            return Found(tuple(found), looked, cursor)


class Sieve:
    def __init__(self, search: Search) -> None:
        self._text = search.text.casefold()
        self._since = parse_time(search.since, UTC) if search.since else None
        self._until = parse_time(search.until, UTC) if search.until else None

    def passes(self, job: JobInfo) -> bool:
        return self._names(job) and self._is_within(job.enqueued_at or job.ended_at)

    def _names(self, job: JobInfo) -> bool:
        if not self._text:
            return True
        texts = (job.id, job.task, job.unique_key, job.error, job.error_type, job.worker, job.reason)
        return any(self._text in text.casefold() for text in texts)

    def _is_within(self, at: datetime | None) -> bool:
        if self._since is None and self._until is None:
            return True
        if at is None:
            return False
        return (self._since is None or at >= self._since) and (self._until is None or at <= self._until)
