"""The log of a topic: writes at its end, finds a position in it, reads from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from headrace.core.errors import Moved
from headrace.core.messages.message import Message, Stream
from headrace.core.topics.topic import (
    LogEntry,
    Reading,
    Start,
    TopicRules,
    position_in_nothing,
    unknown_event,
)
from headrace.stores.sql.lanes import SCHEDULED
from headrace.stores.sql.rows.topic_rows import MOST_BYTES, LogRow, LogSpan, columns_of
from headrace.stores.sqlite.connection.connection import Bindings, Connection
from headrace.stores.sqlite.statements import message_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, BulkRows, listed, unlisted
from headrace.stores.sqlite.threads.transaction import STORE_SEALED, Transaction

#: The lower bits hold the number of an event, the bits above them the number of its topic.
NUMBER_BITS: Final = 40


class LogTable(LogRow):
    __slots__ = ()

    def event(self, number: int) -> int:
        """The primary key of the event with this number."""
        return event_of(self.stream, number)


def event_of(topic: int, number: int) -> int:
    # A damaged number must not give a key that the table cannot hold.
    return (topic << NUMBER_BITS) + min(number, (1 << NUMBER_BITS) - 1)


def number_of(event: int) -> int:
    return event & ((1 << NUMBER_BITS) - 1)


def find_log(connection: Connection, namespace: str, topic: str) -> LogTable | None:
    row = connection.row(topic_statements.FIND_TOPIC, (namespace, topic))
    return LogTable(*row) if row else None


def open_log(transaction: Transaction, topic: str, rules: TopicRules | None = None) -> LogTable:
    """Find the log of a topic, or create it with `rules`."""
    found = find_log(transaction.connection, transaction.namespace, topic)
    if found is not None:
        return found
    stream = transaction.stream(Stream("topic", topic))
    row = (stream.number, *columns_of(rules or TopicRules()))
    return LogTable(*transaction.connection.row(topic_statements.ADD_TOPIC, row))._replace(
        sealed=bool(stream.sealed)
    )


def open_unsealed(transaction: Transaction, topic: str, rules: TopicRules | None = None) -> LogTable:
    """Find or create the log of a topic. Raises `Moved` when the topic has parts, which take its place."""
    stream = transaction.find(Stream("topic", topic))
    if stream is not None and stream.sealed >= STORE_SEALED:
        transaction.stream(Stream("topic", topic))  # raises
    if stream is not None and stream.sealed:
        raise Moved(f"{topic} is sealed")
    return open_log(transaction, topic, rules)


def declare_topic(transaction: Transaction, topic: Stream, rules: TopicRules) -> None:
    log = open_unsealed(transaction, topic.topic, rules)
    transaction.connection.change(topic_statements.WRITE_RULES, (log.stream, *columns_of(rules)))


# --- writing ----------------------------------------------------------------------------------------------


def write(transaction: Transaction, topic: Stream, log: LogTable, messages: Sequence[Message]) -> LogTable:
    """Write messages at the end of the log, in this order."""
    now_us = transaction.now_us
    bodies = BulkBinding()
    rows = [
        (
            message.id,
            message.task,
            now_us + message.lifetime_us if message.lifetime_us else 0,
            message.key,
            *bodies.put(message.body),
        )
        for message in messages
    ]
    at_us = max(now_us, log.last_us)
    bindings = (log.stream, listed(rows), bodies.content())
    log = _add(transaction.connection, topic_statements.ADD_EVENTS, bindings, log, at_us)
    return _move_end(transaction, topic, log, len(messages), at_us)


def write_due(transaction: Transaction, topic: Stream, seqs: Sequence[int]) -> None:
    """Write messages that have become due at the end of the log."""
    log = open_log(transaction, topic.topic)
    at_us = max(transaction.now_us, log.last_us)
    array = listed(seqs)
    connection = transaction.connection
    log = _add(connection, topic_statements.ADD_EVENTS_THAT_ARE_DUE, (array,), log, at_us)
    connection.change(message_statements.FORGET, (array,))
    transaction.count(log.stream, SCHEDULED, -len(seqs))
    _move_end(transaction, topic, log, len(seqs), at_us)


def _add(connection: Connection, statement: str, bindings: Bindings, log: LogTable, at_us: int) -> LogTable:
    """Add events behind the last one. Where another program has written there, add them behind that."""
    try:
        connection.change(statement, (*bindings, log.event(log.last + 1), at_us))
    except apsw.ConstraintError:
        end = connection.value(topic_statements.READ_END, (event_of(log.stream + 1, 0),))
        log = log._replace(last=number_of(end))
        connection.change(statement, (*bindings, log.event(log.last + 1), at_us))
    return log


def _move_end(transaction: Transaction, topic: Stream, log: LogTable, count: int, at_us: int) -> LogTable:
    log = log._replace(last=log.last + count, last_us=at_us)
    transaction.connection.change(topic_statements.MOVE_END, (log.stream, log.last, at_us))
    transaction.ready.add(topic)
    return log


# --- finding ----------------------------------------------------------------------------------------------


def position_of(connection: Connection, log: LogTable, start: Start) -> int:
    """The number after which reading begins, for this start."""
    match start.at:
        case "new":
            return log.last
        case "beginning":
            return log.first - 1
        case "event":
            return _number(connection, log, start.event) - 1
        case "time":
            return before(connection, log, start.time_us, up_to=log.last)


def before(connection: Connection, log: LogTable, time_us: int, *, up_to: int) -> int:
    """The number of the last event, not above `up_to`, that was written before a time. Times never decrease
    along a log, so a binary search finds it. Another program may have removed an event: then the next counts.
    """
    low, high = log.first - 1, up_to
    while low < high:
        middle = (low + high + 1) // 2
        at_us = connection.value(topic_statements.READ_TIME, (log.event(middle), log.event(log.last)))
        if at_us is not None and at_us < time_us:
            low = middle
        else:
            high = middle - 1
    return low


def _number(connection: Connection, log: LogTable, id: str) -> int:
    event: int | None = connection.value(topic_statements.FIND_EVENT, (log.stream, id))
    if event is None:
        raise unknown_event(id)
    return number_of(event)


# --- reading ----------------------------------------------------------------------------------------------


def is_behind(connection: Connection, namespace: str, topic: Stream, position: int) -> bool:
    """Whether the log has an event after a position."""
    return bool(connection.value(topic_statements.IS_BEHIND, (namespace, topic.name, position)))


def read(
    connection: Connection, namespace: str, topic: Stream, after: int | Start, *, limit: int, now_us: int
) -> Reading:
    with connection.snapshot():
        log = find_log(connection, namespace, topic.topic)
        if log is None:
            return Reading((), position_in_nothing(after), now_us)
        position = position_of(connection, log, after) if isinstance(after, Start) else after
        reach = measure(connection, log.stream, position, log.last, limit=limit)
        entries = _entries(connection, log, position, reach.end) if reach else ()
        return Reading(entries, entries[-1].number if entries else position, now_us)


def measure(connection: Connection, topic: int, position: int, last: int, *, limit: int) -> LogSpan | None:
    """None: there is nothing after the position."""
    while True:
        bindings = (event_of(topic, position), event_of(topic, last), limit)
        count, size, event = connection.row(topic_statements.MEASURE_EVENTS, bindings)
        if count <= 1 or size <= MOST_BYTES:
            return LogSpan(number_of(event), size) if count else None
        limit = count // 2


def _entries(connection: Connection, log: LogTable, position: int, end: int) -> tuple[LogEntry, ...]:
    rows, bodies = connection.row(topic_statements.READ_EVENTS, (log.event(position), log.event(end)))
    unpack = BulkRows(bodies)
    return tuple(
        LogEntry(number_of(event), id, task, unpack.take(length) or b"", at_us, expires_us, key)
        for event, id, task, at_us, expires_us, key, length in unlisted(rows)
    )
