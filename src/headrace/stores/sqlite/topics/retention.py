"""Trims the logs of topics, and decides for which groups old events must stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import LIVE_FOR, KeptTopics
from headrace.stores.sqlite.statements import topic_statements
from headrace.stores.sqlite.threads.transaction import Transaction

from .groups import see
from .log import LogTable, before, find_log


class GroupPosition(NamedTuple):
    """What trimming must know of a group."""

    stream: int
    name: str
    position: int
    seen_us: int

    def is_live(self, now_us: int) -> bool:
        return self.seen_us + LIVE_FOR > now_us


def keep_topics(
    transaction: Transaction, groups: Sequence[Stream], limit: int, wants_order: Mapping[Stream, bool]
) -> KeptTopics:
    seen = see(transaction, [stream for stream in groups if stream.kind == "group"], wants_order)
    trimmed, more = 0, False
    holding: list[Stream] = []
    passed: list[Stream] = []
    for topic in dict.fromkeys(group.topic for group in groups):
        log = find_log(transaction.connection, transaction.namespace, topic)
        if log is None:
            continue
        spare = _spare(transaction, log, up_to=log.last)
        drawers = _drawers(transaction, log)
        may_go = _may_go(transaction, log, spare, drawers)
        count = _trim(transaction, log, min(may_go, log.first + limit - 1))
        trimmed += count
        more = more or may_go >= log.first + count
        behind = [drawer for drawer in drawers if log.strict and drawer.position < spare]
        for drawer in sorted(behind, key=lambda drawer: drawer.name):
            live = drawer.is_live(transaction.now_us)
            (holding if live else passed).append(Stream("group", drawer.name))
    return KeptTopics(trimmed, more, tuple(holding), tuple(passed), tuple(seen.disputed), tuple(seen.stalled))


def trim(transaction: Transaction, log: LogTable, limit: int) -> int:
    """Trim at most `limit` events. Costs little when no event may go."""
    up_to = min(log.last, log.first + limit - 1)
    spare = min(_spare(transaction, log, up_to=up_to), up_to)
    if spare < log.first:
        return 0
    return _trim(transaction, log, _may_go(transaction, log, spare, _drawers(transaction, log)))


def _spare(transaction: Transaction, log: LogTable, *, up_to: int) -> int:
    """The number up to which the limits of age or length allow trimming."""
    by_length = log.last - log.max_length if log.max_length is not None else 0
    if not log.retention_us or log.first > log.last:
        return by_length
    old_us = transaction.now_us - log.retention_us + 1
    # Usually not even the first event is old enough.
    if before(transaction.connection, log, old_us, up_to=log.first) < log.first:
        return by_length
    return max(by_length, before(transaction.connection, log, old_us, up_to=up_to))


def _may_go(transaction: Transaction, log: LogTable, spare: int, drawers: list[GroupPosition]) -> int:
    """The number up to which events may go. A strict topic keeps what a live group has not drawn."""
    if not log.strict:
        return spare
    held = [drawer.position for drawer in drawers if drawer.is_live(transaction.now_us)]
    return min([spare, *held])


def _drawers(transaction: Transaction, log: LogTable) -> list[GroupPosition]:
    return [
        GroupPosition(*row)
        for row in transaction.connection.rows(topic_statements.LIST_GROUPS, (log.stream,))
    ]


def _trim(transaction: Transaction, log: LogTable, up_to: int) -> int:
    """Delete the events up to a number; returns how many."""
    up_to = min(up_to, log.last)
    if up_to < log.first:
        return 0
    transaction.connection.change(topic_statements.TRIM, (log.event(log.first), log.event(up_to)))
    transaction.connection.change(topic_statements.MOVE_START, (log.stream, up_to + 1))
    return up_to - log.first + 1
