"""Reads topics, groups and their events for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts, JobStatus, Record
from headrace.core.topics.topic import GroupRecord, TopicRecord
from headrace.stores.sql.rows.topic_rows import topic_record, with_events
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed
from headrace.stores.sqlite.verbs import looking

from .groups import find_group
from .log import find_log


def look(connection: Connection, namespace: str, stream: Stream, id: str, now_us: int) -> Record | None:
    if stream.kind == "topic" and (event := _look_in_log(connection, namespace, stream, id)):
        return event
    return looking.look(connection, namespace, stream, id, now_us)


def _look_in_log(connection: Connection, namespace: str, topic: Stream, id: str) -> Record | None:
    log = find_log(connection, namespace, topic.topic)
    found = log and connection.row(topic_statements.READ_EVENT, (log.stream, id))
    return Record(topic, id, JobStatus.QUEUED, *found) if found else None


def count(connection: Connection, namespace: str, stream: Stream, now_us: int) -> Counts:
    """Counts the messages of the stream and the events of the log."""
    if stream.kind == "queue":
        return looking.count(connection, namespace, stream, now_us)
    with connection.snapshot():
        counts = looking.count(connection, namespace, stream, now_us)
        beside = _count_log if stream.kind == "topic" else _count_lag
        queued, oldest_us = beside(connection, namespace, stream)
    return with_events(counts, queued, oldest_us)


def _count_log(connection: Connection, namespace: str, topic: Stream) -> tuple[int, int]:
    """How many events the log holds, and when the first of them was written."""
    log = find_log(connection, namespace, topic.topic)
    if log is None:
        return 0, 0
    at_us = connection.value(topic_statements.READ_TIME, (log.event(log.first), log.event(log.last)))
    return log.last - log.first + 1, at_us or 0


def _count_lag(connection: Connection, namespace: str, group: Stream) -> tuple[int, int]:
    """How many events the group has not drawn, and the write time of the oldest event that never started."""
    found = find_group(connection, namespace, group)
    if found is None:
        return 0, 0
    lag = connection.value(topic_statements.COUNT_LAG, (found.stream,))
    return lag or 0, connection.value(topic_statements.OLDEST_UNTOUCHED, (found.stream,)) or 0


# --- topics -----------------------------------------------------------------------------------------------


def list_topics(
    connection: Connection, namespace: str, names: Sequence[str] | None, now_us: int
) -> list[TopicRecord]:
    wanted = None if names is None else listed(names)
    with connection.snapshot():
        rows = connection.rows(topic_statements.LIST_TOPICS, (namespace, wanted))
        return [topic_record(row, _list_groups(connection, namespace, row[0], now_us)) for row in rows]


def _list_groups(connection: Connection, namespace: str, topic: int, now_us: int) -> tuple[GroupRecord, ...]:
    rows = connection.rows(topic_statements.DESCRIBE_GROUPS, (topic,))
    return tuple(_group(connection, namespace, now_us, row) for row in sorted(rows))


def _group(connection: Connection, namespace: str, now_us: int, row: Sequence[Any]) -> GroupRecord:
    name, position, lag, seen_us, ordered, stream = row
    group = Stream("group", name)
    counts = looking.count(connection, namespace, group, now_us)
    oldest_us = connection.value(topic_statements.OLDEST_UNTOUCHED, (stream,)) or 0
    return GroupRecord(group, position, lag, counts, oldest_us, seen_us, bool(ordered))
