"""Draws events from the log of a topic into the stream of a group, where they are then claimed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.core.messages.message import NORMAL, Stream
from headrace.core.topics.deferred_keys import DeferredKeys
from headrace.core.topics.drawing import ROUNDS, ROUNDS_BACK, CandidateEvent, DrawingChoice, DrawingGroup
from headrace.core.topics.topic import DRAWN_AHEAD, KEYS_DEFERRED_MOST
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction, new_number

from .key_order import next_in_line_us
from .log import event_of, measure, number_of

#: The lane in which drawn events are queued.
LANE: Final = FIRST_PRIORITY + NORMAL


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
        if not behind.has_to_draw:
            break
        if limit := behind.looks_ahead(far):
            _choose(transaction, behind, limit)
        else:
            _take(transaction, behind)
    else:
        transaction.ready.add(behind.group)  # the next claim reads on
    if behind.position != before:
        transaction.connection.change(topic_statements.MOVE_GROUP, (behind.stream, behind.position))


def _take(transaction: Transaction, behind: DrawingGroup) -> None:
    """Draw the next events in one statement. Events that the group already has conflict, and are skipped."""
    connection = transaction.connection
    reach = measure(connection, behind.topic, behind.position, behind.last, limit=behind.wanted)
    if reach is None:
        behind.position = behind.last  # all these events were trimmed
        return
    part = (behind.stream, event_of(behind.topic, behind.position), event_of(behind.topic, reach.end))
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


def _choose(transaction: Transaction, behind: DrawingGroup, limit: int) -> None:
    """Draw the next events one by one. Used when some must be parked, or when many are skipped."""
    start, end = event_of(behind.topic, behind.position), event_of(behind.topic, behind.last)
    bindings = (behind.stream, start, end, limit)
    ahead = _candidates(unlisted(transaction.connection.value(topic_statements.LOOK_AHEAD, bindings)))
    if not ahead:
        behind.position = behind.last
        return
    choice = _choice(transaction, behind, ahead)
    choice.move_on(ahead)
    _write(transaction, behind, choice, keys_count=behind.ordered)


def _catch_up(transaction: Transaction, behind: DrawingGroup) -> None:
    """Draw events of deferred keys from before the position."""
    for _ in range(ROUNDS_BACK):
        if not behind.has_to_catch_up:
            return
        part = behind.look_back()
        start, end = event_of(behind.topic, part.start - 1), event_of(behind.topic, part.end)
        bindings = (behind.stream, start, end, DRAWN_AHEAD, listed(part.keys))
        found = _candidates(unlisted(transaction.connection.value(topic_statements.LOOK_BACK, bindings)))
        choice = _choice(transaction, behind, found)
        choice.catch_up(found, part)
        _write(transaction, behind, choice, keys_count=True)
    if behind.deferred.drawable:
        transaction.ready.add(behind.group)


def _candidates(rows: Iterable[Sequence[Any]]) -> list[CandidateEvent]:
    return [CandidateEvent(number_of(event), *columns) for event, *columns in rows]


def _choice(transaction: Transaction, behind: DrawingGroup, ahead: Sequence[CandidateEvent]) -> DrawingChoice:
    keys = behind.keys_to_count(ahead)
    if not keys:
        return DrawingChoice(behind, {})
    bindings = (behind.stream, listed(keys))
    return DrawingChoice(
        behind, dict(unlisted(transaction.connection.value(topic_statements.COUNT_PARKED, bindings)))
    )


def _write(
    transaction: Transaction, behind: DrawingGroup, choice: DrawingChoice, *, keys_count: bool
) -> None:
    if not choice.drawn:
        return
    connection, stream = transaction.connection, behind.stream
    if connection.value(topic_statements.HAS_END_RECORDS, (stream,)):
        connection.change(topic_statements.FORGET_END_RECORDS_OF, (stream, listed(choice.ids)))
    parked_us = next_in_line_us(transaction, stream)
    drawn = [(event_of(behind.topic, number), PARKED if waits else LANE) for number, waits in choice.drawn]
    row = (stream, listed(drawn), transaction.now_us, parked_us, new_number(), int(keys_count))
    connection.change(topic_statements.DRAW_CHOSEN, row)
    if choice.keys:
        held = [(key, id, None) for key, id in choice.keys.items()]
        connection.change(message_statements.TAKE_KEYS, (stream, listed(held)))
    transaction.count(stream, PARKED, choice.parked)
    transaction.count(stream, LANE, len(drawn) - choice.parked)


# --- deferred keys ----------------------------------------------------------------------------------------


def _read_deferred(connection: Connection, group: int) -> DeferredKeys:
    return DeferredKeys.of(unlisted(connection.value(topic_statements.LIST_DEFERRED, (group,))))


def _write_deferred(connection: Connection, group: int, before: DeferredKeys, after: DeferredKeys) -> None:
    """Write only the keys that have changed."""
    changed, gone = after.changes_since(before)
    if changed:
        connection.change(topic_statements.WRITE_DEFERRED, (group, listed(changed)))
    if gone:
        connection.change(topic_statements.DROP_DEFERRED, (group, listed(gone)))
