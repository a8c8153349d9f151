"""Decides what a claim takes when some of the streams have messages with constraints."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from headrace.core.rules.lanes import is_child_work_first, share_of_constrained
from headrace.core.store import CLAIM_BYTES
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sql.lanes import CHILD, SUSPECT, lane_for

#: The number of a message that can be claimed, the length of its body, its place.
Ready = tuple[int, int, int]

#: The number of a message that was taken from a line, and the length of its body.
Taken = tuple[int, int]


class LineStream(NamedTuple):
    """A stream that has held messages with constraints."""

    number: int
    held_children: bool


class LineRequest(NamedTuple):
    """Take up to `limit` messages, or `room` bytes, from the open lines of a place."""

    stream: int
    place: int
    limit: int
    room: int


class ConstrainedChoice:
    """In each lane, messages without and with constraints get half each, or what the others leave. `found`:
    the messages without constraints, lane by lane."""

    def __init__(self, streams: Sequence[LineStream], query: ClaimQuery, found: Sequence[Ready]) -> None:
        self._streams = streams
        self._query = query
        self._found = found
        self._room = CLAIM_BYTES
        self._constrained = query.constrained
        self._children = query.children - sum([place < 0 for _, _, place in found])

    def run(self) -> Generator[LineRequest, list[Taken], list[int]]:
        """The numbers of the messages, in their order. The store answers each request with what it took."""
        chosen: list[int] = []
        for lane in (SUSPECT, *self._query.lanes):
            most = self._query.limit - len(chosen)
            if lane == SUSPECT:
                most = min(most, self._query.suspects)
            if most > 0 and self._room > 0:
                chosen += yield from self._take(lane, most)
        return chosen

    def _take(self, lane: int, most: int) -> Generator[LineRequest, list[Taken], list[int]]:
        plain = [each for each in self._found if each[2] in (lane, lane - CHILD)]
        share = max(share_of_constrained(most, self._query.turn), most - len(plain))
        taken = yield from self._take_constrained(lane, share)
        for seq, size, _ in plain[: most - len(taken)]:
            if self._room <= 0:
                break
            self._room -= size or 0
            taken.append(seq)
        return taken

    def _take_constrained(self, lane: int, most: int) -> Generator[LineRequest, list[Taken], list[int]]:
        taken: list[int] = []
        for child in (True, False) if is_child_work_first(self._query.turn) else (False, True):
            for stream in self._streams:
                limit = min(most - len(taken), self._constrained, self._children if child else most)
                if limit <= 0 or (child and not stream.held_children):
                    continue
                place = lane_for(lane, child=child, limited=True)
                found = yield LineRequest(stream.number, place, limit, self._room)
                self._room -= sum([size for _, size in found])
                self._constrained -= len(found)
                self._children -= len(found) if child else 0
                taken += [seq for seq, _ in found]
        return taken
