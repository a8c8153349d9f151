"""Decides the order in which messages of a stream are listed, and fills a page: the same in every store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headrace.core.errors import ConfigurationError

from .record import JobStatus, Page, Record


class ListingPart(msgspec.Struct, frozen=True):
    """Messages of one status, or all that are over (None). `late`: only messages that got this status after
    the listing began."""

    code: str
    status: JobStatus | None
    late: bool = False

    def may_hold(self, status: JobStatus | None) -> bool:
        if status is None:
            return True
        return not self.late and (self.status is status or (self.status is None and status in OVER))


OVER: Final = (JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.EXPIRED)

#: Running messages first. A message that changes between two pages moves to a part that is still to come, so
#: that it may be listed twice, but is not missed. The two `late` parts are there for this.
PARTS: Final = (
    ListingPart("X", JobStatus.RUNNING),
    ListingPart("Q", JobStatus.QUEUED),
    ListingPart("R", JobStatus.RETRYING),
    ListingPart("S", JobStatus.SCHEDULED),
    ListingPart("q", JobStatus.QUEUED, late=True),
    ListingPart("x", JobStatus.RUNNING, late=True),
    ListingPart("D", JobStatus.DEAD),
    ListingPart("M", None),
)

#: The most requests for one page, even if few messages fit the filter.
REQUESTS: Final = 30


class ListingWalk:
    """Goes through the parts for one page. `began` is when the first page was asked for, on the store's
    clock; 0: now."""

    def __init__(
        self,
        parts: Iterable[ListingPart],
        cursor: str | None,
        limit: int,
        *,
        status: JobStatus | None,
        task: str | None,
    ) -> None:
        self._parts = [part for part in parts if part.may_hold(status)]
        self._status, self._task = status, task
        self._limit = limit
        self._items: list[Record] = []
        self._requests = 0
        self.began: int = 0
        self.after: str = ""
        if cursor:
            self._go_on(cursor)

    def _go_on(self, cursor: str) -> None:
        began, _, rest = cursor.partition(":")
        code, _, self.after = rest.partition(":")
        codes = [part.code for part in self._parts]
        if not began.isdecimal() or code not in codes:
            raise ConfigurationError(f"{cursor!r} is no cursor of this listing: pass one that a page gave")
        self.began = int(began)
        self._parts = self._parts[codes.index(code) :]

    @property
    def part(self) -> ListingPart | None:
        """The part to read next; None: the page is full, or there is nothing more."""
        going = self._parts and self.room > 0 and self._requests < REQUESTS
        return self._parts[0] if going else None

    @property
    def room(self) -> int:
        return self._limit - len(self._items)

    def took(self, records: Iterable[Record], after: str) -> None:
        """Add the next records of the part. The part goes on at `after`; empty: it is at its end."""
        self._requests += 1
        known = {record.id for record in self._items}  # one may have moved on while the page was read
        self._items += [each for each in records if self._fits(each) and each.id not in known]
        self.after = after
        if not after:
            self._parts = self._parts[1:]

    def page(self) -> Page[Record]:
        further = f"{self.began}:{self._parts[0].code}:{self.after}" if self._parts else None
        return Page(tuple(self._items), further)

    def _fits(self, record: Record) -> bool:
        return self._status in (None, record.status) and self._task in (None, record.task)


def numbers_in(after: str, count: int) -> tuple[int, ...]:
    """The numbers that a place within a part is made of."""
    try:
        numbers = tuple(map(int, after.split(":")))
    except ValueError:
        numbers = ()
    if len(numbers) != count:
        raise wrong_place(after)
    return numbers


def wrong_place(after: str) -> ConfigurationError:
    return ConfigurationError(f"{after!r} is no place in this listing: pass a cursor that a page gave")


def rank(record: Record) -> tuple[int, int, str]:
    """The sort key for records of several streams: the greater comes first. Queued records sort by id: an id
    that headrace made begins with its time."""
    order = _RANKS.get(record.status, len(PARTS))
    return -order, record.claimed_us or record.due_us or record.ended_us, record.id


_RANKS: Final = {part.status: number for number, part in reversed(list(enumerate(PARTS))) if part.status}
