"""Lists records and dead letters in pages: the parts of a queue one after another."""

from __future__ import annotations

import re
from typing import Any

from headrace.core.messages.message import Stream
from headrace.core.records.answers import DeadFilter
from headrace.core.records.listing import OVER, PARTS, REQUESTS, ListingPart, ListingWalk, wrong_place
from headrace.core.records.record import DeadLetter, JobStatus, Page, Record, dead_letter_of
from headrace.stores.redis.entries import record_of
from headrace.stores.redis.scripts import GET, LIST_MESSAGES
from headrace.stores.redis.server.labels import readable_texts
from headrace.stores.redis.server.server import RedisServer

#: Beside the queued ones: messages that wait behind another message of their key, and those in lines.
PARKED, LINED = ListingPart("K", JobStatus.QUEUED), ListingPart("L", JobStatus.QUEUED)
_GROUP_PARTS = (*PARTS[:4], PARKED, *PARTS[4:])
_QUEUE_PARTS = (*PARTS[:4], PARKED, LINED, *PARTS[4:])
_PARTS_OF = {"queue": _QUEUE_PARTS, "group": _GROUP_PARTS, "topic": PARTS}
_DEAD = ListingPart("D", JobStatus.DEAD)

#: The cursor in a part, as lua/looking/list_messages.lua gives it. For end records: the position of SCAN and
#: the last id of that step. Another program may have written any score and any id.
_BY_TIME = re.compile(r"-?(inf|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?) .*", re.DOTALL)
_PLACES = {
    "X": re.compile(r"[0-9x] [0-9]{1,20}-[0-9]{1,20}"),
    "Q": re.compile(r"[0-9]{1,20}-[0-9]{1,20} [0-9]"),
    "M": re.compile(r"[0-9]{1,20}( .*)?", re.DOTALL),
}

#: Rows and bytes of bodies in one request, however large the page is.
ROWS, BYTES = 100, 1 << 20

#: Keys that one SCAN for end records looks at, roughly.
SCAN = 500


class Lister:
    def __init__(self, store: RedisServer) -> None:
        self._store = store

    async def messages(
        self, stream: Stream, status: JobStatus | None, task: str | None, cursor: str | None, limit: int
    ) -> Page[Record]:
        parts = _PARTS_OF[stream.kind]
        walk = ListingWalk(parts, cursor, limit, status=status, task=task)
        while part := walk.part:
            rows, after, now_ms = await self._rows(stream, part, walk.after, walk.room, walk.began)
            walk.began = walk.began or now_ms
            walk.took(rows, after)
        return walk.page()

    async def dead_letters(
        self, stream: Stream, only: DeadFilter, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        after, items = cursor or "", list[DeadLetter]()
        for _ in range(REQUESTS):
            rows, after, _ = await self._rows(stream, _DEAD, after, limit - len(items))
            items += [dead_letter_of(record) for record in rows if only.fits(record.task, record.reason)]
            if not after or len(items) >= limit:
                break
        return Page(tuple(items), after or None)

    async def _rows(
        self, stream: Stream, part: ListingPart, after: str, limit: int, began_ms: int = 0
    ) -> tuple[list[Record], str, int]:
        """Rows of a part, the cursor of the next page, and the time in milliseconds."""
        _check_place(part, after)
        if part.status is None:
            return *await self._end_records(stream, after, limit), 0
        since_ms = began_ms if part.late else 0
        call = self._store.queue(stream).call(
            LIST_MESSAGES, part.code.upper(), _meant(after), min(limit, ROWS), BYTES, since_ms
        )
        further, rows, now_ms = await self._store.run(call)
        return [record_of(stream, row) for row in rows], _shown(further), int(now_ms)

    async def _end_records(self, stream: Stream, after: str, limit: int) -> tuple[list[Record], str]:
        """End records are keys of their own that expire, so SCAN finds them.

        A step of SCAN may bring more than fit on the page. The next page repeats the step and begins after
        the last id. Keys may come and go between two pages; the listing does not promise to follow that.
        """
        position, _, last = after.partition(" ")
        queue = self._store.queue(stream)
        prefix = queue.keys.end_record_prefix
        scan = ("SCAN", position or "0", "MATCH", prefix + b"*", "COUNT", SCAN)
        following, keys = await self._store.command(*scan, queue=queue)
        ids = [id for id in readable_texts(key[len(prefix) :] for key in keys) if id > last]
        page = ids[: min(limit, ROWS)]
        further = ""
        if len(page) < len(ids):
            further = f"{position or '0'} {page[-1]}"
        elif following != b"0":
            further = following.decode()
        records = await self._look(stream, page)
        return [record for record in records if record.status in OVER], further

    async def _look(self, stream: Stream, ids: list[str]) -> list[Record]:
        if not ids:
            return []
        rows: list[Any] = await self._store.run(self._store.queue(stream).call(GET, *ids))
        return [record_of(stream, row) for row in rows]


def _check_place(part: ListingPart, after: str) -> None:
    written = not after or after.startswith("%")
    if not written and not _PLACES.get(part.code.upper(), _BY_TIME).fullmatch(after):
        raise wrong_place(after)


def _shown(after: bytes) -> str:
    """The cursor as text; in hexadecimal digits when it holds an id that is no text."""
    try:
        return after.decode()
    except UnicodeDecodeError:
        return f"%{after.hex()}"


def _meant(after: str) -> bytes:
    try:
        return bytes.fromhex(after[1:]) if after.startswith("%") else after.encode()
    except ValueError:
        raise wrong_place(after) from None
