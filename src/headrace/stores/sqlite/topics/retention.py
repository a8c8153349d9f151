"""Trims the logs of topics, and decides for which groups old events must stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.messages.message import Stream
from headrace.core.topics.retention import kept_in, may_go, room_in_log
from headrace.core.topics.topic import KeptTopics
from headrace.stores.sql.rows.topic_rows import GroupPosition, positions_of
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.threads.transaction import Transaction

from .groups import see
from .log import LogTable, before, find_log


def keep_topics(
    transaction: Transaction, groups: Sequence[Stream], limit: int, wants_order: Mapping[Stream, bool]
) -> KeptTopics:
    now_us = transaction.now_us
    seen = see(transaction, [stream for stream in groups if stream.kind == "group"], wants_order)
    kept = KeptTopics(disputed=tuple(seen.disputed), stalled=tuple(seen.stalled))
    for topic in dict.fromkeys(group.topic for group in groups):
        log = find_log(transaction.connection, transaction.namespace, topic)
        if log is None:
            continue
        spare = _spare(transaction, log, up_to=log.last)
        readers = _readers(transaction, log)
        gone = may_go(spare, readers, now_us) if log.strict else spare
        trimmed = _trim(transaction, log, min(gone, log.first + limit - 1))
        first = log.first + trimmed
        kept += KeptTopics(trimmed, gone >= first)
        kept += kept_in(spare if log.strict else 0, first, readers, now_us)
    return kept


def trim(transaction: Transaction, log: LogTable, limit: int) -> int:
    """Trim at most `limit` events. Costs little when no event may go."""
    up_to = min(log.last, log.first + limit - 1)
    spare = min(_spare(transaction, log, up_to=up_to), up_to)
    if spare < log.first:
        return 0
    if log.strict:
        spare = may_go(spare, _readers(transaction, log), transaction.now_us)
    return _trim(transaction, log, spare)


def room_for(transaction: Transaction, log: LogTable, limit: int) -> int:
    """How many events the log takes from a batch with this limit."""
    return room_in_log(limit, log.first, log.last, _readers(transaction, log), transaction.now_us)


def _spare(transaction: Transaction, log: LogTable, *, up_to: int) -> int:
    """The number up to which the limits of age or length allow trimming."""
    by_length = log.spare_by_length
    if not log.retention_us or log.first > log.last:
        return by_length
    old_us = transaction.now_us - log.retention_us + 1
    # Usually not even the first event is old enough.
    if before(transaction.connection, log, old_us, up_to=log.first) < log.first:
        return by_length
    return max(by_length, before(transaction.connection, log, old_us, up_to=up_to))


def _readers(transaction: Transaction, log: LogTable) -> list[GroupPosition]:
    return positions_of(transaction.connection.rows(topic_statements.LIST_GROUPS, (log.stream,)))


def _trim(transaction: Transaction, log: LogTable, up_to: int) -> int:
    """Delete the events up to a number; returns how many."""
    up_to = min(up_to, log.last)
    if up_to < log.first:
        return 0
    transaction.connection.change(topic_statements.TRIM, (log.event(log.first), log.event(up_to)))
    transaction.connection.change(topic_statements.MOVE_START, (log.stream, up_to + 1))
    return up_to - log.first + 1
