"""Lists several parts as one stream, in pages that leave nothing out and show nothing twice."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.records.listing import rank
from headrace.core.records.record import DeadLetter, Page, Record


class PartCursor(msgspec.Struct, array_like=True):
    """How far a part was listed: the store's own cursor (None: from the beginning) of the page with its last
    shown item. For dead letters also the time at which the last shown message of any part died, and the ids
    of this part with exactly that time that were shown."""

    part: str
    cursor: str | None = None
    died_us: int = 0
    shown: tuple[str, ...] = ()


#: Items that are read of each part for a page, besides twice its equal share of the page.
LEAST_AHEAD = 5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[PartCursor]).decode


def places_of(parts: Sequence[Stream], cursor: str | None) -> list[PartCursor]:
    """The places to go on from. Parts that were added after the first page are not listed."""
    if cursor is None:
        return [PartCursor(part.name) for part in parts]
    try:
        return _decode(base64.urlsafe_b64decode(cursor))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{cursor!r} is no cursor of this listing: pass one that a page gave"
        ) from error


def cursor_of(places: list[PartCursor]) -> str | None:
    return base64.urlsafe_b64encode(_encode(places)).decode() if places else None


async def page_of_records(
    parts: Sequence[Stream],
    cursor: str | None,
    limit: int,
    ask: Callable[[Stream, str | None, int], Awaitable[Page[Record]]],
) -> Page[Record]:
    """The next records of all parts. A store's cursor points behind a whole page, so parts are read twice:
    first to count how many of each part belong on this page, and then exactly that many."""
    by_name = {part.name: part for part in parts}
    places = [place for place in places_of(parts, cursor) if place.part in by_name]

    async def read(place: PartCursor, most: int) -> Page[Record]:
        return await ask(by_name[place.part], place.cursor, most)

    each = min(limit, LEAST_AHEAD + 2 * limit // max(1, len(places)))
    pages = await asyncio.gather(*(read(place, each) for place in places))
    counts = _counts(pages, limit)
    again = [index for index, page in enumerate(pages) if 0 < counts[index] < len(page)]
    for index, page in zip(
        again, await asyncio.gather(*(read(places[i], counts[i]) for i in again)), strict=True
    ):
        pages[index] = page
    items: list[Record] = []
    further: list[PartCursor] = []
    for place, page, count in zip(places, pages, counts, strict=True):
        if count or not page:  # a page may be empty and not the last
            items += page
            place.cursor = page.cursor
            if page.cursor is None:
                continue
        further.append(place)
    return Page(tuple(sorted(items, key=rank, reverse=True)), cursor_of(further))


def _counts(pages: Sequence[Page[Record]], limit: int) -> list[int]:
    """How many records of each part are among the next records of all parts."""
    counts = [0] * len(pages)
    while sum(counts) < limit:
        if any(count == len(page) and page.cursor for count, page in zip(counts, pages, strict=True)):
            break  # this part has more records than its page shows, and the next one is not known
        heads = [
            (rank(page[count]), index)
            for index, (count, page) in enumerate(zip(counts, pages, strict=True))
            if count < len(page)
        ]
        if not heads:
            break
        counts[max(heads)[1]] += 1
    return counts


async def page_of_dead(
    parts: Sequence[Stream],
    cursor: str | None,
    limit: int,
    ask: Callable[[Stream, str | None, int], Awaitable[Page[DeadLetter]]],
) -> Page[DeadLetter]:
    """The latest dead letters of all parts. Those that were read and not shown are read again for the next
    page."""
    by_name = {part.name: part for part in parts}
    places = [place for place in places_of(parts, cursor) if place.part in by_name]
    # With many parts, read a few of each: dead letters may be large, and those not shown are read again.
    each = min(limit, LEAST_AHEAD + 2 * limit // max(1, len(places)))
    pages = await asyncio.gather(*(_ahead(by_name[place.part], place, each, ask) for place in places))
    heads = list(zip(places, pages, strict=True))
    items: list[DeadLetter] = []
    # Stop when a page is used up and its part has more: the next letter of that part is not known.
    while len(items) < limit and heads and all(page or page.cursor is None for _, page in heads):
        heads = [(place, page) for place, page in heads if page]
        if not heads:
            break
        latest = max(range(len(heads)), key=lambda index: heads[index][1][0].died_at)
        place, page = heads[latest]
        letter, *rest = page
        items.append(letter)
        _show(place, letter)
        heads[latest] = (place, Page(tuple(rest), page.cursor))
    for place, _ in heads if items else ():
        _go_on_after(place, items[-1])
    return Page(tuple(items), cursor_of([_next(place, page) for place, page in heads if _goes_on(page)]))


async def _ahead(
    part: Stream,
    place: PartCursor,
    limit: int,
    ask: Callable[[Stream, str | None, int], Awaitable[Page[DeadLetter]]],
) -> Page[DeadLetter]:
    """At least `limit` dead letters of a part that were not shown yet, or all of them."""
    items: list[DeadLetter] = []
    cursor = place.cursor
    while True:
        page = await ask(part, cursor, limit)
        items += [letter for letter in page if not _was_shown(place, letter)]
        cursor = page.cursor
        if cursor is None or len(items) >= limit:
            return Page(tuple(items), cursor)
        if not items:
            place.cursor = cursor  # everything before it was shown


def _was_shown(place: PartCursor, letter: DeadLetter) -> bool:
    if not place.died_us:
        return False
    died_us = _died_us(letter)
    return died_us > place.died_us or (died_us == place.died_us and letter.id in place.shown)


def _died_us(letter: DeadLetter) -> int:
    return (letter.died_at - _EPOCH) // timedelta(microseconds=1)


def _show(place: PartCursor, letter: DeadLetter) -> None:
    died_us = _died_us(letter)
    place.shown = (*place.shown, letter.id) if died_us == place.died_us else (letter.id,)
    place.died_us = died_us


def _go_on_after(place: PartCursor, last: DeadLetter) -> None:
    """Skip dead letters that are newer than the last shown one of any part: they came after that page."""
    if place.died_us != _died_us(last):
        place.died_us, place.shown = _died_us(last), ()


def _goes_on(page: Page[DeadLetter]) -> bool:
    return bool(page) or page.cursor is not None


def _next(place: PartCursor, page: Page[DeadLetter]) -> PartCursor:
    """The next place. When the whole page was shown, it uses the store's next cursor."""
    return place if page else PartCursor(place.part, page.cursor, place.died_us, place.shown)
