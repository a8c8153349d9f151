"""Copies what was set aside in the source to the target, page by page, and compares the counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import END, START, Imported, Moving, SetAside, StoredPage
from headrace.core.rules.layout import whole_stream
from headrace.core.store import PartitionedStore


class Copying:
    def __init__(self, source: Moving, target: Moving, move: str) -> None:
        self._source = source
        self._target = target
        self._move = move

    async def run(self, streams: Sequence[SetAside], reached: Callable[[int], None]) -> int:
        """Copy what is not copied yet. Returns how many messages and events the target has taken in all."""
        origins = [each.stream for each in streams]
        found = await self._target.imported(origins, move=self._move)
        places = dict(zip(origins, found, strict=True))
        for origin in self._in_order(origins):
            place = places[origin]
            # Each group is known, and paused, before events come into the log of its topic.
            pages = 1 if origin.kind == "group" and place.place == START else None
            async for reached_place in self._copy(origin, place, pages):
                places[origin] = reached_place
                reached(sum(each.count for each in places.values()))
        return sum(each.count for each in places.values())

    def _in_order(self, origins: Sequence[Stream]) -> list[Stream]:
        groups = [origin for origin in origins if origin.kind == "group"]
        return [*groups, *(origin for origin in origins if origin.kind != "group"), *groups]

    async def _copy(self, origin: Stream, before: Imported, pages: int | None) -> AsyncIterator[Imported]:
        place, count = before.place, before.count
        stream = self._stream_for(origin)
        while place != END and pages != 0:
            page = await self._next_page(origin, place)
            await self._target.import_page(stream, page, move=self._move, origin=origin)
            place, count = page.next, count + page.count
            pages = pages - 1 if pages else None
            yield Imported(place, count)

    async def _next_page(self, origin: Stream, place: str) -> StoredPage:
        """The next page with items, or the last one: an empty page is not worth a step of the target."""
        page = await self._source.export(origin, place)
        while not page.items and page.next != END:
            page = await self._source.export(origin, page.next)
        return StoredPage(page.items, place, page.next)

    def _stream_for(self, origin: Stream) -> Stream:
        """A store without parts takes all parts of a queue into one stream."""
        return origin if isinstance(self._target, PartitionedStore) else whole_stream(origin)


def verify(streams: Sequence[SetAside], taken: int) -> None:
    """Raise when the target has taken less than the source holds. It has taken more when a move was cut
    off while it emptied the source."""
    expected = sum(each.count for each in streams)
    if taken < expected:
        raise BackendUnavailable(
            f"the target has taken {taken:,} messages and events, and the source holds {expected:,}: nothing"
            " was deleted. Please report this"
        )
