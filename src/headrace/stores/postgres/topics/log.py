"""The log of a topic: writes at its end, finds a position in it, reads from there."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import (
    LogEntry,
    Reading,
    Start,
    TopicRules,
    position_in_nothing,
    unknown_event,
)
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import message_statements, stream_statements, topic_statements
from headrace.stores.sql.lanes import SCHEDULED
from headrace.stores.sql.rows.topic_rows import MOST_BYTES, LogRow, LogSpan, columns_of


async def find_log(
    connection: PostgresConnection | PostgresTransaction, namespace: str, topic: str
) -> LogRow | None:
    rows = await connection.rows(topic_statements.FIND_TOPIC, (namespace, topic))
    return LogRow(*rows[0]) if rows else None


async def lock_log(transaction: PostgresTransaction, topic: str) -> LogRow | None:
    """The log with the topic's lock, which lasts until the commit."""
    row = await transaction.row(topic_statements.LOCK_TOPIC, (transaction.namespace, topic))
    return LogRow(*row) if row else None


async def open_log(
    transaction: PostgresTransaction, topic: str, rules: TopicRules | None = None, *, draining: bool = False
) -> LogRow:
    """Lock the log of a topic, or create it with `rules`."""
    stream = await transaction.stream(Stream("topic", topic), draining=draining)
    found = await lock_log(transaction, topic)
    if found is None:
        row = (stream, *columns_of(rules or TopicRules()))
        await transaction.change(topic_statements.ADD_TOPIC, row)
        found = await lock_log(transaction, topic)
    assert found is not None
    return found


async def is_declared(
    connection: PostgresConnection, namespace: str, topic: Stream, rules: TopicRules
) -> bool:
    """Whether the topic exists with these rules. Workers ask for it again and again."""
    found = await find_log(connection, namespace, topic.topic)
    return found is not None and (found.retention_us, found.max_length, found.strict) == columns_of(rules)


async def declare_topic(transaction: PostgresTransaction, topic: Stream, rules: TopicRules) -> None:
    log = await open_log(transaction, topic.topic, rules)
    await transaction.change(topic_statements.WRITE_RULES, (log.stream, *columns_of(rules)))


# --- writing ----------------------------------------------------------------------------------------------


async def write_due(
    transaction: PostgresTransaction, topic: Stream, log: LogRow, ids: Sequence[str]
) -> LogRow:
    """Write messages that have become due at the end of the log, in this order. The topic and their rows must
    be locked."""
    at_us = max(transaction.now_us, log.last_us)
    values = (log.stream, log.last, at_us, list(ids))
    await transaction.change(topic_statements.ADD_EVENTS_THAT_ARE_DUE, values)
    await transaction.change(message_statements.FORGET, ([log.stream] * len(ids), list(ids)))
    transaction.count(log.stream, SCHEDULED, -len(ids))
    log = log._replace(last=log.last + len(ids), last_us=at_us)
    await transaction.change(topic_statements.MOVE_END, (log.stream, log.last, at_us))
    transaction.ready.add(topic)
    return log


# --- finding ----------------------------------------------------------------------------------------------


async def position_of(connection: PostgresConnection | PostgresTransaction, log: LogRow, start: Start) -> int:
    """The number after which reading begins, for this start."""
    match start.at:
        case "new":
            return log.last
        case "beginning":
            return log.first - 1
        case "event":
            return await _number(connection, log, start.event) - 1
        case "time":
            return await before(connection, log, start.time_us, up_to=log.last)


async def before(
    connection: PostgresConnection | PostgresTransaction, log: LogRow, time_us: int, *, up_to: int
) -> int:
    """The number of the last event, not above `up_to`, that was written before a time. Times never decrease
    along a log, so a binary search finds it."""
    low, high = log.first - 1, up_to
    while low < high:
        middle = (low + high + 1) // 2
        rows = await connection.rows(topic_statements.READ_TIME, (log.stream, middle))
        # An event that was trimmed in the meantime was written before.
        if not rows or rows[0][0] < time_us:
            low = middle
        else:
            high = middle - 1
    return low


async def _number(connection: PostgresConnection | PostgresTransaction, log: LogRow, id: str) -> int:
    [(number,)] = await connection.rows(topic_statements.FIND_EVENT, (log.stream, id))
    if number is None:
        raise unknown_event(id)
    return int(number)


# --- reading ----------------------------------------------------------------------------------------------


async def read(
    connection: PostgresConnection,
    namespace: str,
    topic: Stream,
    after: int | Start,
    *,
    limit: int,
    offset_us: int,
) -> Reading:
    [(now_us,)] = await connection.rows(stream_statements.NOW, (offset_us,))
    log = await find_log(connection, namespace, topic.topic)
    if log is None:
        return Reading((), position_in_nothing(after), now_us)
    position = await position_of(connection, log, after) if isinstance(after, Start) else after
    reach = await measure(connection, log.stream, position, log.last, limit=limit)
    entries = await _entries(connection, log, position, reach.end) if reach else ()
    return Reading(entries, entries[-1].number if entries else position, now_us)


async def measure(
    connection: PostgresConnection | PostgresTransaction, topic: int, position: int, last: int, *, limit: int
) -> LogSpan | None:
    """None: there is nothing after the position."""
    while True:
        values = (topic, position, last, limit)
        [(count, size, number)] = await connection.rows(topic_statements.MEASURE_EVENTS, values)
        if count <= 1 or size <= MOST_BYTES:
            return LogSpan(number, size) if count else None
        limit = count // 2


async def _entries(
    connection: PostgresConnection, log: LogRow, position: int, end: int
) -> tuple[LogEntry, ...]:
    rows = await connection.rows(topic_statements.READ_EVENTS, (log.stream, position, end))
    return tuple(LogEntry(*row) for row in rows)
