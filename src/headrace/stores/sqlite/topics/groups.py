"""Joins, resets and removes groups, and keeps their positions in the log of their topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import BEGINNING, KEYS_DEFERRED_MOST, Ordering, Start
from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.rows.topic_rows import GroupProblems, GroupRow
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import message_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction

from .key_order import pass_on
from .log import LogTable, open_log, open_unsealed, position_of


def find_group(connection: Connection, namespace: str, group: Stream) -> GroupRow | None:
    row = connection.row(topic_statements.FIND_GROUP, (namespace, group.name))
    return GroupRow(*row) if row else None


def join(transaction: Transaction, group: Stream, start: Start, *, ordered: bool) -> bool:
    log = open_unsealed(transaction, group.topic)
    stream = transaction.stream(group).number
    found = find_group(transaction.connection, transaction.namespace, group)
    if found is None or found.removed:
        position = position_of(transaction.connection, log, start)
        row = (stream, log.stream, position, transaction.now_us)
        transaction.connection.change(topic_statements.WRITE_GROUP, row)
        transaction.connection.change(topic_statements.FORGET_DEFERRED, (stream,))
        _order(transaction, stream, Ordering(), wants_order=ordered)
    else:
        transaction.connection.change(topic_statements.SEE_GROUP, (stream, transaction.now_us))
        _order(transaction, stream, found.ordering, wants_order=ordered)
    transaction.ready.add(group)
    return found is None or bool(found.removed)


def _order(transaction: Transaction, stream: int, before: Ordering, *, wants_order: bool) -> Ordering:
    ordering = before.seen(transaction.now_us, wants_order=wants_order)
    row = (stream, int(ordering.ordered), ordering.wanted_us, ordering.unwanted_us)
    transaction.connection.change(topic_statements.ORDER_GROUP, row)
    return ordering


def revive(transaction: Transaction, groups: Sequence[Stream], wants_order: Mapping[Stream, bool]) -> None:
    """Create the groups again of which the file has no row, not even a removed one. `wants_order`: whether
    this process, as a member, wants them to be ordered."""
    bindings = (transaction.namespace, listed(group.name for group in groups))
    known = set(unlisted(transaction.connection.value(topic_statements.LIST_KNOWN, bindings)))
    for index, group in enumerate(groups):
        if index not in known:
            join(transaction, group, BEGINNING, ordered=wants_order.get(group, False))


def see(
    transaction: Transaction, groups: Sequence[Stream], wants_order: Mapping[Stream, bool]
) -> GroupProblems:
    """Note that these groups have a live member; returns their problems."""
    revive(transaction, groups, wants_order)
    seen = GroupProblems([], [])
    for group in groups:
        found = find_group(transaction.connection, transaction.namespace, group)
        if found is None or found.removed:
            continue
        transaction.connection.change(topic_statements.SEE_GROUP, (found.stream, transaction.now_us))
        ordering = found.ordering
        if group in wants_order:
            ordering = _order(transaction, found.stream, ordering, wants_order=wants_order[group])
        if ordering.is_disputed(transaction.now_us):
            seen.disputed.append(group)
        if transaction.connection.value(topic_statements.IS_STALLED, (found.stream, KEYS_DEFERRED_MOST)):
            seen.stalled.append(group)
    return seen


def reset(transaction: Transaction, group: Stream, start: Start) -> bool:
    found = find_group(transaction.connection, transaction.namespace, group)
    if found is None or found.removed:
        return False
    log = open_log(transaction, group.topic)
    position = position_of(transaction.connection, log, start)
    transaction.connection.change(topic_statements.RESET_GROUP, (found.stream, position))
    transaction.connection.change(topic_statements.FORGET_DEFERRED, (found.stream,))
    _take_back(transaction, group, found.stream, log, position)
    transaction.ready.add(group)
    return True


def _take_back(transaction: Transaction, group: Stream, stream: int, log: LogTable, position: int) -> None:
    """Delete messages that have a key, were never claimed, and will be drawn again after this position."""
    bindings = (stream, log.stream, log.event(position))
    rows = unlisted(transaction.connection.value(topic_statements.LIST_UNTOUCHED, bindings))
    transaction.connection.change(message_statements.FORGET, (listed(row[0] for row in rows),))
    for _, place, _, _ in rows:
        transaction.count(stream, place, -1)
    pass_on(transaction, [EndedMessage(group, stream, key, id) for _, _, key, id in rows])
