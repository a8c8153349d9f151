"""Lists the jobs of a queue: what the store holds, and then the history of jobs that are over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.encoding.codec import AppCodec
from headrace.core.errors import ConfigurationError
from headrace.core.history.ended_job import record_of_entry, with_history
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Wanted
from headrace.core.records.job_info import JobInfo, listed_info, newest_first
from headrace.core.records.record import JobStatus, Page, Record
from headrace.engine.streams import StreamRouter

#: How the cursor of a page of the history begins.
_HISTORY: Final = "history:"


class JobListing(msgspec.Struct, frozen=True):
    """A listing of one stream. Without a status it has no history: it lists what the store holds."""

    stream: Stream
    status: JobStatus | None
    task: str | None
    limit: int

    async def page(self, backend: StreamRouter, cursor: str | None) -> Page[Record]:
        if cursor is not None and cursor.startswith(_HISTORY):
            return await self._of_history(backend, cursor.removeprefix(_HISTORY) or None)
        page = await backend.messages(
            self.stream, status=self.status, task=self.task, cursor=cursor, limit=self.limit
        )
        records = await self._detailed(backend, page)
        if page.cursor is not None or not self._has_history:
            return Page(records, page.cursor)
        if len(records) >= self.limit:
            return Page(records, _HISTORY)
        rest = msgspec.structs.replace(self, limit=self.limit - len(records))
        more = await rest._of_history(backend, None)
        return Page((*records, *more), more.cursor)

    @property
    def _has_history(self) -> bool:
        return self.stream.kind == "queue" and self.status is not None and self.status.over

    async def _detailed(self, backend: StreamRouter, records: Sequence[Record]) -> Sequence[Record]:
        """The records, with what the history has of those that are over."""
        over = [record.id for record in records if record.status.over]
        if not over or self.stream.kind != "queue":
            return records
        entries = dict(zip(over, await backend.find_history(self.stream, over), strict=True))
        return tuple(with_history(record, entries.get(record.id)) for record in records)

    async def _of_history(self, backend: StreamRouter, cursor: str | None) -> Page[Record]:
        """A page of the history, without the jobs that the store still holds: they are listed before, or
        have another status by now."""
        page = await backend.history(
            self.stream, status=self.status, task=self.task, cursor=cursor, limit=self.limit
        )
        held = await backend.holders(self.stream, [Wanted(id=entry.id) for entry in page]) if page else []
        records = [
            record_of_entry(self.stream, entry)
            for entry, holder in zip(page, held, strict=True)
            if holder is None
        ]
        found = tuple(record for record in records if record is not None)
        return Page(found, None if page.cursor is None else _HISTORY + page.cursor)


def listed_status(state: JobStatus | str) -> JobStatus:
    """The status that a user names."""
    try:
        return JobStatus(state)
    except ValueError:
        raise ConfigurationError(f"{state!r} is not a state: use one of {', '.join(JobStatus)}") from None


def listed_jobs(page: Page[Record], status: JobStatus | None, codec: AppCodec | None) -> Page[JobInfo]:
    """A page for users. Without a status, the page is sorted."""
    jobs = [listed_info(record, codec) for record in page]
    return Page(tuple(jobs if status else sorted(jobs, key=newest_first)), page.cursor)
