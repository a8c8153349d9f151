"""Pages of records and dead letters: the parts of a queue one after another, each in its own order."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.backend import DeadFilter
from headrace.core.decoding import text_of
from headrace.core.errors import ConfigurationError
from headrace.core.message import Stream
from headrace.core.record import DeadLetter, JobStatus, Page, Record

from .entries import dead_letter_of, record_of
from .keys import CHILD_LANES, LANES, NORMAL_LANE
from .labels import readable_texts
from .scripts import LIST, LOOK
from .store import Store

_LANES = (*range(1, len(LANES) + 1), *CHILD_LANES)
MARKS = "M"
PARKED = "K"  # of groups alone

#: The parts, in the order in which a message passes through them: one that moves on between two pages may be
#: listed twice, but is not missed.
PARTS: dict[str, JobStatus | None] = {
    "S": JobStatus.SCHEDULED,
    "R": JobStatus.RETRYING,
    PARKED: JobStatus.QUEUED,
    **{f"Q{lane}": JobStatus.QUEUED for lane in _LANES},
    **{f"X{lane}": JobStatus.RUNNING for lane in _LANES},
    "D": JobStatus.DEAD,
    MARKS: None,
}
_MARKED = (JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.EXPIRED)

#: Rows and bytes of bodies asked for at once, however large the page, and requests made for one page.
ROWS, BYTES, REQUESTS = 100, 1 << 20, 30

#: Keys that one SCAN for marks looks at, roughly.
SCAN = 500


class Cursor(msgspec.Struct, frozen=True):
    """The part, and where in it to go on; for marks the position of SCAN and the last id of that step."""

    part: str
    after: str = ""

    def __str__(self) -> str:
        return f"{self.part}/{self.after}"


def read_cursor(text: str) -> Cursor:
    part, found, after = text.partition("/")
    if not found or part not in PARTS:
        raise ConfigurationError(f"{text!r} is no cursor of this listing: pass one that a page gave")
    return Cursor(part, after)


class Lister:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def records(
        self, stream: Stream, status: JobStatus | None, task: str | None, cursor: str | None, limit: int
    ) -> Page[Record]:
        parts = [part for part in PARTS if _holds(part, status)]
        if stream.kind != "group" and PARKED in parts:
            parts.remove(PARKED)
        queue = self._store.queue(stream)
        used = await self._store.command("HGET", queue.keys.meta, "lanes") or b""
        unused = {f"{kind}{lane}" for kind in "QX" for lane in _LANES if lane != NORMAL_LANE} - {
            f"{kind}{lane}" for kind in "QX" for lane in text_of(used)
        }
        parts = [part for part in parts if part not in unused]
        place = read_cursor(cursor) if cursor else None
        if place is not None:
            parts = parts[parts.index(place.part) :] if place.part in parts else []
        items: list[Record] = []
        for _ in range(REQUESTS):
            if not parts or len(items) >= limit:
                break
            place = place or Cursor(parts[0])
            rows, place = await self._rows(stream, place, limit - len(items))
            items += [record for record in rows if _fits(record, status, task)]
            if place is None:
                parts = parts[1:]
        return Page(tuple(items), str(place or Cursor(parts[0])) if parts else None)

    async def dead(
        self, stream: Stream, only: DeadFilter, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        place: Cursor | None = read_cursor(cursor) if cursor else Cursor("D")
        items: list[DeadLetter] = []
        for _ in range(REQUESTS):
            if place is None or len(items) >= limit:
                break
            rows, place = await self._rows(stream, place, limit - len(items))
            items += [dead_letter_of(record) for record in rows if _is_meant(record, only)]
        return Page(tuple(items), str(place) if place else None)

    async def _rows(self, stream: Stream, place: Cursor, limit: int) -> tuple[list[Record], Cursor | None]:
        """Rows from this place on, and the place after them in the same part."""
        if place.part == MARKS:
            return await self._marks(stream, place, limit)
        queue = self._store.queue(stream)
        after, rows = await self._store.run(
            queue.call(LIST, place.part, _meant(place.after), min(limit, ROWS), BYTES)
        )
        further = Cursor(place.part, _shown(after)) if after else None
        return [record_of(stream, row) for row in rows], further

    async def _marks(self, stream: Stream, place: Cursor, limit: int) -> tuple[list[Record], Cursor | None]:
        """Marks are keys of their own, which pass by themselves, so they are found by SCAN.

        A step of it may bring more than fit. It is then made again, and begins after the last id: between two
        pages keys may come and go, which the listing does not promise to follow.
        """
        position, _, last = place.after.partition(" ")
        queue = self._store.queue(stream)
        prefix = queue.keys.mark_prefix
        scan = ("SCAN", position or "0", "MATCH", prefix + b"*", "COUNT", SCAN)
        following, keys = await self._store.command(*scan, queue=queue)
        ids = [id for id in readable_texts(key[len(prefix) :] for key in keys) if id > last]
        page = ids[: min(limit, ROWS)]
        further: Cursor | None = None
        if len(page) < len(ids):
            further = Cursor(MARKS, f"{position or '0'} {page[-1]}")
        elif following != b"0":
            further = Cursor(MARKS, following.decode())
        records = await self._look(stream, page)
        return [record for record in records if record.status in _MARKED], further

    async def _look(self, stream: Stream, ids: list[str]) -> list[Record]:
        if not ids:
            return []
        rows: list[Any] = await self._store.run(self._store.queue(stream).call(LOOK, *ids))
        return [record_of(stream, row) for row in rows]


def _shown(after: bytes) -> str:
    """Where to go on, as text: behind an id that is none it is written in hexadecimal digits."""
    try:
        return after.decode()
    except UnicodeDecodeError:
        return f"%{after.hex()}"


def _meant(after: str) -> bytes:
    try:
        return bytes.fromhex(after[1:]) if after.startswith("%") else after.encode()
    except ValueError:
        raise ConfigurationError(
            f"{after!r} is no place in this listing: pass a cursor that a page gave"
        ) from None


def _holds(part: str, status: JobStatus | None) -> bool:
    """Whether messages of this status may be found there."""
    if status is None or PARTS[part] is status:
        return True
    return part == MARKS and status in _MARKED


def _fits(record: Record, status: JobStatus | None, task: str | None) -> bool:
    return status in (None, record.status) and task in (None, record.task)


def _is_meant(record: Record, only: DeadFilter) -> bool:
    return only.task in (None, record.task) and only.reason in (None, record.reason)
