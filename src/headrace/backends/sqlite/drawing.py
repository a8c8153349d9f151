"""Drawing events from the log of a topic into the stream of a group, before they are claimed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.message import NORMAL, Stream
from headrace.core.topics import DRAWN_AHEAD, PARKED_MOST

from . import queries, topic_queries
from .connection import Connection
from .log import MOST_BYTES, event_of, measure, number_of
from .order import next_in_line_us
from .parcel import listed, unlisted
from .places import FIRST_PRIORITY, PARKED
from .transaction import Transaction, new_number

#: Where drawn events are queued.
LANE: Final = FIRST_PRIORITY + NORMAL

#: How often one claim looks further along the log for a group that has met only what it may not hand out.
ROUNDS: Final = 20


class Behind(msgspec.Struct):
    """A group that has not drawn all of its topic's log, while it draws."""

    group: Stream
    stream: int
    topic: int
    position: int
    last: int
    ordered: bool
    parked: int
    wanted: int
    room: int = MOST_BYTES

    @property
    def satisfied(self) -> bool:
        """Whether it must not or need not draw more."""
        return self.wanted <= 0 or self.room <= 0 or self.parked >= PARKED_MOST

    def event(self, number: int) -> int:
        return event_of(self.topic, number)


def is_a_group_behind(connection: Connection, namespace: str, groups: Sequence[Stream]) -> bool:
    """Whether one of them would draw something, or must be made anew."""
    names = listed(group.name for group in groups)
    return bool(connection.value(topic_queries.IS_A_GROUP_BEHIND, (namespace, names, PARKED_MOST)))


def draw(transaction: Transaction, groups: Sequence[Stream], limit: int, *, paused: bool = False) -> None:
    """For each group as many as are missing in its lanes to `limit`; with `paused` also where it stands
    still."""
    wanted = min(limit, DRAWN_AHEAD)
    bindings = (transaction.namespace, listed(group.name for group in groups), wanted, int(not paused))
    for index, stream, topic, position, last, ordered, parked, ready in transaction.connection.rows(
        topic_queries.LIST_BEHIND, bindings
    ):
        parked += transaction.counted(stream, PARKED)
        behind = Behind(groups[index], stream, topic, position, last, bool(ordered), parked, wanted - ready)
        _draw_for(transaction, behind)


def _draw_for(transaction: Transaction, behind: Behind) -> None:
    before = behind.position
    for far in range(ROUNDS):
        if behind.satisfied or behind.position >= behind.last:
            break
        if far or behind.ordered:
            # Where it met little that it may hand out it looks further each time.
            _choose(transaction, behind, limit=min(behind.wanted << far, DRAWN_AHEAD))
        else:
            _take(transaction, behind)
    else:
        transaction.news.ready.add(behind.group)  # there is more to look through, for the next claim
    if behind.position != before:
        transaction.connection.change(topic_queries.MOVE_GROUP, (behind.stream, behind.position))


def _take(transaction: Transaction, behind: Behind) -> None:
    """All that come next, in one statement. What the group has already conflicts with it, and is passed
    over."""
    connection = transaction.connection
    reach = measure(connection, behind.topic, behind.position, behind.last, limit=behind.wanted)
    if reach is None:
        behind.position = behind.last  # all of it was trimmed
        return
    part = (behind.stream, behind.event(behind.position), behind.event(reach.end))
    _forget_marks(connection, part)
    drawn = connection.change(topic_queries.DRAW, (*part, transaction.now_us, new_number()))
    transaction.count(behind.stream, LANE, drawn)
    behind.position = reach.end
    behind.wanted -= drawn
    behind.room -= reach.size


def _forget_marks(connection: Connection, part: tuple[int, int, int]) -> None:
    if connection.value(topic_queries.HAS_MARKS, part[:1]):
        connection.change(topic_queries.FORGET_MARKS, part)


# --- one by one ------------------------------------------------------------------------------------------


def _choose(transaction: Transaction, behind: Behind, *, limit: int) -> None:
    """The same with a look at each: some must be parked, or many are passed over."""
    connection = transaction.connection
    bindings = (behind.stream, behind.event(behind.position), behind.event(behind.last), limit)
    ahead = unlisted(connection.value(topic_queries.LOOK_AHEAD, bindings))
    start, parked = behind.position, behind.parked
    if not ahead:
        behind.position = behind.last
        return
    drawn: list[tuple[int, int]] = []
    keys: dict[str, str] = {}
    ids: set[str] = set()
    for event, id, key, length, known, held in ahead:
        if behind.satisfied:
            break
        behind.position = number_of(event)
        if known or id in ids:
            continue
        ids.add(id)
        behind.room -= length
        key = key if behind.ordered else ""
        waits = bool(key) and (held or key in keys)
        drawn.append((event, PARKED if waits else LANE))
        if waits:
            behind.parked += 1
        else:
            behind.wanted -= 1
            if key:
                keys[key] = id
    _forget_marks(connection, (behind.stream, behind.event(start), behind.event(behind.position)))
    _write(transaction, behind, drawn, keys)
    transaction.count(behind.stream, PARKED, behind.parked - parked)
    transaction.count(behind.stream, LANE, len(drawn) - (behind.parked - parked))


def _write(
    transaction: Transaction, behind: Behind, drawn: list[tuple[int, int]], keys: dict[str, str]
) -> None:
    if drawn:
        parked_us = next_in_line_us(transaction, behind.stream)
        row = (behind.stream, listed(drawn), transaction.now_us, parked_us, new_number(), int(behind.ordered))
        transaction.connection.change(topic_queries.DRAW_CHOSEN, row)
    if keys:
        held = [(key, id, None) for key, id in keys.items()]
        transaction.connection.change(queries.TAKE_KEYS, (behind.stream, listed(held)))
