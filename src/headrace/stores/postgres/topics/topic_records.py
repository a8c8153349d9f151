"""Reads topics, groups and their events for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.messages.message import Stream
from headrace.core.records.record import Counts, JobStatus, Record
from headrace.core.topics.topic import GroupRecord, TopicRecord
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.statements import topic_statements
from headrace.stores.postgres.verbs import looking
from headrace.stores.sql.rows.topic_rows import topic_record, with_events

from .groups import find_group
from .log import find_log


async def look(
    connection: PostgresConnection, namespace: str, stream: Stream, id: str, now_us: int
) -> Record | None:
    if stream.kind == "topic" and (event := await _look_in_log(connection, namespace, stream, id)):
        return event
    return await looking.look(connection, namespace, stream, id, now_us)


async def _look_in_log(
    connection: PostgresConnection, namespace: str, topic: Stream, id: str
) -> Record | None:
    log = await find_log(connection, namespace, topic.topic)
    found = await connection.rows(topic_statements.READ_EVENT, (log.stream, id)) if log else []
    return Record(topic, id, JobStatus.QUEUED, *found[0]) if found else None


async def count(connection: PostgresConnection, namespace: str, stream: Stream, now_us: int) -> Counts:
    """Counts the messages of the stream and the events of the log."""
    if stream.kind == "queue":
        return await looking.count(connection, namespace, stream, now_us)
    async with connection.snapshot():
        counts = await looking.count(connection, namespace, stream, now_us)
        beside = _count_log if stream.kind == "topic" else _count_lag
        queued, oldest_us = await beside(connection, namespace, stream)
    return with_events(counts, queued, oldest_us)


async def _count_log(connection: PostgresConnection, namespace: str, topic: Stream) -> tuple[int, int]:
    """How many events the log holds, and when the first of them was written."""
    log = await find_log(connection, namespace, topic.topic)
    if log is None:
        return 0, 0
    rows = await connection.rows(topic_statements.READ_TIME, (log.stream, log.first))
    return log.last - log.first + 1, rows[0][0] if rows else 0


async def _count_lag(connection: PostgresConnection, namespace: str, group: Stream) -> tuple[int, int]:
    """How many events the group has not drawn, and the write time of the oldest event that never started."""
    found = await find_group(connection, namespace, group)
    if found is None:
        return 0, 0
    lags = await connection.rows(topic_statements.COUNT_LAG, (found.stream,))
    return lags[0][0] if lags else 0, await _oldest(connection, found.stream)


async def _oldest(connection: PostgresConnection, group: int) -> int:
    [(oldest_us,)] = await connection.rows(topic_statements.OLDEST_UNTOUCHED, (group,))
    return oldest_us or 0


# --- topics -----------------------------------------------------------------------------------------------


async def list_topics(
    connection: PostgresConnection, namespace: str, names: Sequence[str] | None, now_us: int
) -> list[TopicRecord]:
    wanted = None if names is None else list(names)
    async with connection.snapshot():
        rows = await connection.rows(topic_statements.LIST_TOPICS, (namespace, wanted))
        return [topic_record(row, await _list_groups(connection, namespace, row[0], now_us)) for row in rows]


async def _list_groups(
    connection: PostgresConnection, namespace: str, topic: int, now_us: int
) -> tuple[GroupRecord, ...]:
    rows = await connection.rows(topic_statements.DESCRIBE_GROUPS, (topic,))
    return tuple([await _group(connection, namespace, now_us, row) for row in rows])


async def _group(
    connection: PostgresConnection, namespace: str, now_us: int, row: Sequence[Any]
) -> GroupRecord:
    name, position, lag, seen_us, ordered, stream = row
    group = Stream("group", name)
    counts = await looking.count(connection, namespace, group, now_us)
    oldest_us = await _oldest(connection, stream)
    return GroupRecord(group, position, lag, counts, oldest_us, seen_us, ordered)
