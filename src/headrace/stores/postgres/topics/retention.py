"""Trims the logs of topics, and decides for which groups old events must stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.messages.message import Stream
from headrace.core.topics.retention import kept_in, may_go, room_in_log
from headrace.core.topics.topic import KeptTopics
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import group_statements, topic_statements
from headrace.stores.sql.rows.topic_rows import GroupPosition, LogRow, positions_of

from .groups import see
from .log import before, lock_log


async def keep_topics(
    transaction: PostgresTransaction, groups: Sequence[Stream], limit: int, wishes: Mapping[Stream, bool]
) -> KeptTopics:
    now_us = transaction.now_us
    seen = await see(transaction, [stream for stream in groups if stream.kind == "group"], wishes)
    kept = KeptTopics(disputed=tuple(seen.disputed), stalled=tuple(seen.stalled))
    for topic in dict.fromkeys(group.topic for group in groups):
        log = await lock_log(transaction, topic)
        if log is None:
            continue
        spare = await _spare(transaction, log, up_to=log.last)
        if spare <= 0:
            continue  # nothing could be trimmed, whatever the groups have drawn
        readers = await _readers(transaction, log)
        gone = may_go(spare, readers, now_us) if log.strict else spare
        trimmed = await _trim(transaction, log, min(gone, log.first + limit - 1))
        first = log.first + trimmed
        kept += KeptTopics(trimmed, gone >= first)
        kept += kept_in(spare if log.strict else 0, first, readers, now_us)
    return kept


async def trim(transaction: PostgresTransaction, log: LogRow, limit: int) -> int:
    """Trim at most `limit` events. Costs little when no event may go."""
    up_to = min(log.last, log.first + limit - 1)
    spare = min(await _spare(transaction, log, up_to=up_to), up_to)
    if spare < log.first:
        return 0
    if log.strict:
        spare = may_go(spare, await _readers(transaction, log), transaction.now_us)
    return await _trim(transaction, log, spare)


async def room_for(transaction: PostgresTransaction, log: LogRow, limit: int) -> int:
    """How many events the log takes from a batch with this limit."""
    readers = await _readers(transaction, log)
    return room_in_log(limit, log.first, log.last, readers, transaction.now_us)


async def _spare(transaction: PostgresTransaction, log: LogRow, *, up_to: int) -> int:
    """The number up to which the limits of age or length allow trimming."""
    by_length = log.spare_by_length
    if not log.retention_us or log.first > log.last:
        return by_length
    old_us = transaction.now_us - log.retention_us + 1
    # Usually not even the first event is old enough.
    if await before(transaction, log, old_us, up_to=log.first) < log.first:
        return by_length
    return max(by_length, await before(transaction, log, old_us, up_to=up_to))


async def _readers(transaction: PostgresTransaction, log: LogRow) -> list[GroupPosition]:
    return positions_of(await transaction.rows(group_statements.LIST_GROUPS, (log.stream,)))


async def _trim(transaction: PostgresTransaction, log: LogRow, up_to: int) -> int:
    """Delete the events up to a number; returns how many."""
    up_to = min(up_to, log.last)
    if up_to < log.first:
        return 0
    await transaction.change(topic_statements.TRIM, (log.stream, log.first, up_to))
    await transaction.change(topic_statements.MOVE_START, (log.stream, up_to + 1))
    return up_to - log.first + 1
