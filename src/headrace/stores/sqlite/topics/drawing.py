"""Draws events from the log of a topic into the stream of a group, where they are then claimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headrace.core.messages.message import NORMAL, Stream
from headrace.core.topics.deferred_keys import DeferredKey, DeferredKeys
from headrace.core.topics.topic import DRAWN_AHEAD, KEYS_DEFERRED_MOST, may_park
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sqlite.statements import message_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction, new_number

from .key_order import next_in_line_us
from .log import MOST_BYTES, event_of, measure, number_of

#: The lane in which drawn events are queued.
LANE: Final = FIRST_PRIORITY + NORMAL

#: How often one claim reads further along the log, for a group that has found only events that may not run.
ROUNDS: Final = 20

#: How often one claim reads the log for deferred keys, and how many events each read covers.
ROUNDS_BACK: Final = 5
LOOKED_BACK: Final = 2000


class DrawingGroup(msgspec.Struct):
    """The state of a group that draws. It has not drawn its topic's whole log yet."""

    group: Stream
    stream: int
    topic: int
    position: int
    last: int
    ordered: bool
    again: int  # up to this number it may find events that it has drawn before
    parked: int
    wanted: int
    deferred: DeferredKeys
    room: int = MOST_BYTES

    @property
    def satisfied(self) -> bool:
        return self.wanted <= 0 or self.room <= 0

    def event(self, number: int) -> int:
        return event_of(self.topic, number)


def is_a_group_behind(connection: Connection, namespace: str, groups: Sequence[Stream]) -> bool:
    """Whether one of the groups would draw something, or must be created again."""
    names = listed(group.name for group in groups)
    return bool(connection.value(topic_statements.IS_A_GROUP_BEHIND, (namespace, names, KEYS_DEFERRED_MOST)))


def draw(transaction: Transaction, groups: Sequence[Stream], limit: int, *, paused: bool = False) -> None:
    """Fill the lanes of each group up to `limit`. With `paused`, paused groups draw too."""
    wanted = min(limit, DRAWN_AHEAD)
    bindings = (transaction.namespace, listed(group.name for group in groups), wanted, int(not paused))
    rows = transaction.connection.rows(topic_statements.LIST_BEHIND, bindings)
    for index, stream, topic, position, last, ordered, again, parked, ready in rows:
        parked += transaction.counted(stream, PARKED)
        before = _read_deferred(transaction.connection, stream)
        behind = DrawingGroup(
            groups[index],
            stream,
            topic,
            position,
            last,
            bool(ordered),
            again,
            parked,
            wanted - ready,
            before.copy(),
        )
        _catch_up(transaction, behind)
        _draw_for(transaction, behind)
        _write_deferred(transaction.connection, stream, before, behind.deferred)


def _draw_for(transaction: Transaction, behind: DrawingGroup) -> None:
    before = behind.position
    for far in range(ROUNDS):
        if behind.satisfied or behind.deferred.too_many or behind.position >= behind.last:
            break
        if far or behind.ordered or behind.deferred.keys:
            # The last round found few events that may run, so each round reads further.
            _choose(transaction, behind, limit=min(behind.wanted << far, DRAWN_AHEAD))
        else:
            _take(transaction, behind)
    else:
        transaction.changes.ready.add(behind.group)  # the next claim reads on
    if behind.position != before:
        transaction.connection.change(topic_statements.MOVE_GROUP, (behind.stream, behind.position))


def _take(transaction: Transaction, behind: DrawingGroup) -> None:
    """Draw the next events in one statement. Events that the group already has conflict, and are skipped."""
    connection = transaction.connection
    reach = measure(connection, behind.topic, behind.position, behind.last, limit=behind.wanted)
    if reach is None:
        behind.position = behind.last  # all these events were trimmed
        return
    part = (behind.stream, behind.event(behind.position), behind.event(reach.end))
    _forget_end_records(connection, part)
    drawn = connection.change(topic_statements.DRAW, (*part, transaction.now_us, new_number()))
    transaction.count(behind.stream, LANE, drawn)
    behind.position = reach.end
    behind.wanted -= drawn
    behind.room -= reach.size


def _forget_end_records(connection: Connection, part: tuple[int, int, int]) -> None:
    if connection.value(topic_statements.HAS_END_RECORDS, part[:1]):
        connection.change(topic_statements.FORGET_END_RECORDS, part)


# --- one by one ------------------------------------------------------------------------------------------


class CandidateEvent(NamedTuple):
    """An event of the log, as the group sees it. `known`: 1: the group has the event; 2: and the event waits
    or runs there with its key."""

    event: int
    id: str
    key: str
    length: int
    known: int
    held: int

    @property
    def number(self) -> int:
        return number_of(self.event)


def _choose(transaction: Transaction, behind: DrawingGroup, *, limit: int) -> None:
    """Draw the next events one by one. Used when some must be parked, or when many are skipped."""
    bindings = (behind.stream, behind.event(behind.position), behind.event(behind.last), limit)
    ahead = [
        CandidateEvent(*row)
        for row in unlisted(transaction.connection.value(topic_statements.LOOK_AHEAD, bindings))
    ]
    if not ahead:
        behind.position = behind.last
        return
    choice = Choice(transaction, behind, ahead)
    for met in ahead:
        if behind.satisfied or behind.deferred.too_many:
            break
        behind.position = met.number
        choice.meet(met)
    choice.write(keys_count=behind.ordered)


def _catch_up(transaction: Transaction, behind: DrawingGroup) -> None:
    """Draw events of deferred keys from before the position."""
    deferred = behind.deferred
    for _ in range(ROUNDS_BACK):
        if not _has_to_catch_up(behind):
            return
        start = deferred.start()
        end = min(start + LOOKED_BACK - 1, behind.position)
        keys = listed(key for key, each in deferred.keys.items() if each.number >= start)
        bindings = (behind.stream, behind.event(start - 1), behind.event(end), DRAWN_AHEAD, keys)
        rows = unlisted(transaction.connection.value(topic_statements.LOOK_BACK, bindings))
        ahead = [CandidateEvent(*row) for row in rows]
        looked = end if len(ahead) < DRAWN_AHEAD else ahead[-1].number
        choice = Choice(transaction, behind, ahead)
        for met in ahead:
            if not _has_to_catch_up(behind):
                looked = met.number - 1
                break
            choice.meet_again(met, start)
        deferred.looked_up_to(looked, behind.position)
        choice.write(keys_count=True)
    if deferred.drawable:
        transaction.changes.ready.add(behind.group)


def _has_to_catch_up(behind: DrawingGroup) -> bool:
    return bool(behind.deferred.drawable) and not behind.satisfied


class Choice:
    """Decides for each event of the log: into the lane, parked, or passed over. Then writes all decisions."""

    def __init__(self, transaction: Transaction, behind: DrawingGroup, ahead: list[CandidateEvent]) -> None:
        self._transaction = transaction
        self._behind = behind
        self._drawn: list[tuple[int, int]] = []
        self._ids: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._blocked: set[str] = set()
        self._parked = self._count_parked({met.key for met in ahead if met.held})

    def _count_parked(self, keys: set[str]) -> dict[str, int]:
        if not keys or not (self._behind.ordered or self._behind.deferred.keys):
            return {}
        bindings = (self._behind.stream, listed(keys))
        return dict(unlisted(self._transaction.connection.value(topic_statements.COUNT_PARKED, bindings)))

    def meet(self, met: CandidateEvent) -> None:
        """Decide about the next event."""
        behind, key = self._behind, met.key
        known = met.known or self._ids.get(met.id, 0)
        if key in behind.deferred.keys:
            behind.deferred.pass_over(key, met.number)
        elif not behind.ordered or not key:
            if not known:
                self._draw(met)
        elif known:
            if self._comes_again(met, known):
                behind.deferred.pass_over(key, met.number)
        elif self._is_free(met) or may_park(self._parked.get(key, 0), behind.parked):
            self._draw(met, key)
        else:
            behind.deferred.pass_over(key, met.number)

    def meet_again(self, met: CandidateEvent, start: int) -> None:
        """Decide about the next event of a deferred key. `start`: where this read of the log began."""
        deferred, key = self._behind.deferred, met.key
        if key in self._blocked or not deferred.is_due(key, met.number, start):
            return
        known = met.known or self._ids.get(met.id, 0)
        has_room = may_park(self._parked.get(key, 0), self._behind.parked, deferred=True)
        if not has_room or self._comes_again(met, known):
            self._blocked.add(key)
            deferred.stop_at(key, met.number)
            return
        deferred.met(key, met.number)
        if not known:
            self._draw(met, key)

    def _comes_again(self, met: CandidateEvent, known: int) -> bool:
        """Whether an event that the group already has must run once more, because the group was reset."""
        return known == 2 and met.number <= self._behind.again

    def _is_free(self, met: CandidateEvent) -> bool:
        return not met.held and met.key not in self._keys

    def _draw(self, met: CandidateEvent, key: str = "") -> None:
        waits = bool(key) and not self._is_free(met)
        self._drawn.append((met.event, PARKED if waits else LANE))
        self._ids[met.id] = 2 if key else 1
        self._behind.room -= met.length
        if waits:
            self._behind.parked += 1
            self._parked[key] = self._parked.get(key, 0) + 1
            return
        self._behind.wanted -= 1
        if key:
            self._keys[key] = met.id

    def write(self, *, keys_count: bool) -> None:
        if not self._drawn:
            return
        transaction, connection, stream = self._transaction, self._transaction.connection, self._behind.stream
        if connection.value(topic_statements.HAS_END_RECORDS, (stream,)):
            connection.change(topic_statements.FORGET_END_RECORDS_OF, (stream, listed(self._ids)))
        parked_us = next_in_line_us(transaction, stream)
        row = (stream, listed(self._drawn), transaction.now_us, parked_us, new_number(), int(keys_count))
        connection.change(topic_statements.DRAW_CHOSEN, row)
        if self._keys:
            held = [(key, id, None) for key, id in self._keys.items()]
            connection.change(message_statements.TAKE_KEYS, (stream, listed(held)))
        parked = sum(place == PARKED for _, place in self._drawn)
        transaction.count(stream, PARKED, parked)
        transaction.count(stream, LANE, len(self._drawn) - parked)


# --- deferred keys ----------------------------------------------------------------------------------------


def _read_deferred(connection: Connection, group: int) -> DeferredKeys:
    rows = unlisted(connection.value(topic_statements.LIST_DEFERRED, (group,)))
    return DeferredKeys(
        {key: DeferredKey(number, passed) for key, number, passed, _ in rows},
        {key for key, _, _, drawable in rows if drawable},
    )


def _write_deferred(connection: Connection, group: int, before: DeferredKeys, after: DeferredKeys) -> None:
    """Write only the keys that have changed."""
    old, new = _rows(before), _rows(after)
    changed = [row for key, row in new.items() if row != old.get(key)]
    if changed:
        connection.change(topic_statements.WRITE_DEFERRED, (group, listed(changed)))
    gone = old.keys() - new.keys()
    if gone:
        connection.change(topic_statements.DROP_DEFERRED, (group, listed(gone)))


def _rows(deferred: DeferredKeys) -> dict[str, tuple[str, int, int, int]]:
    return {
        key: (key, each.number, each.passed, int(key in deferred.drawable))
        for key, each in deferred.keys.items()
    }
