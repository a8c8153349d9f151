"""Joins, resets and removes groups, and keeps their positions in the log of their topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import BEGINNING, KEYS_DEFERRED_MOST, Ordering, Start
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import drawing_statements, group_statements, message_statements
from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.rows.topic_rows import GroupProblems, GroupRow, LogRow

from .key_order import pass_on
from .log import open_log, position_of


async def find_group(
    connection: PostgresConnection | PostgresTransaction, namespace: str, group: Stream
) -> GroupRow | None:
    rows = await connection.rows(group_statements.FIND_GROUP, (namespace, group.name))
    return GroupRow(*rows[0]) if rows else None


async def lock_group(transaction: PostgresTransaction, group: Stream) -> GroupRow | None:
    """The group, locked until the commit: no other transaction draws for it."""
    row = await transaction.row(group_statements.LOCK_GROUP, (transaction.namespace, group.name))
    return GroupRow(*row) if row else None


async def join(transaction: PostgresTransaction, group: Stream, start: Start, *, ordered: bool) -> bool:
    log = await open_log(transaction, group.topic)
    stream = await transaction.stream(group)
    found = await lock_group(transaction, group)
    if found is None or found.removed:
        position = await position_of(transaction, log, start)
        row = (stream, log.stream, position, transaction.now_us)
        await transaction.change(group_statements.WRITE_GROUP, row)
        await transaction.change(group_statements.FORGET_DEFERRED, (stream,))
        await _order(transaction, stream, Ordering(), wants_order=ordered)
    else:
        await _order(transaction, stream, found.ordering, wants_order=ordered)
    transaction.ready.add(group)
    return found is None or found.removed


async def _order(
    transaction: PostgresTransaction, stream: int, before: Ordering, *, wants_order: bool
) -> Ordering:
    ordering = before.seen(transaction.now_us, wants_order=wants_order)
    row = (stream, ordering.ordered, ordering.wanted_us, ordering.unwanted_us, transaction.now_us)
    await transaction.change(group_statements.ORDER_GROUP, row)
    return ordering


async def revive(
    transaction: PostgresTransaction, groups: Sequence[Stream], wishes: Mapping[Stream, bool]
) -> None:
    """Create the groups again of which there is no row, not even a removed one. `wishes`: whether this
    process, as a member, wants them to be ordered."""
    values = (transaction.namespace, [group.name for group in groups])
    known = {name for (name,) in await transaction.rows(drawing_statements.LIST_KNOWN, values)}
    for group in groups:
        if group.name not in known:
            await join(transaction, group, BEGINNING, ordered=wishes.get(group, False))


async def see(
    transaction: PostgresTransaction, groups: Sequence[Stream], wishes: Mapping[Stream, bool]
) -> GroupProblems:
    """Note that these groups have a live member; returns their problems."""
    seen = GroupProblems([], [])
    for group in groups:
        found = await lock_group(transaction, group)
        if found is None:
            await join(transaction, group, BEGINNING, ordered=wishes.get(group, False))
            continue
        if found.removed:
            continue
        ordering = found.ordering
        if group in wishes:
            ordering = await _order(transaction, found.stream, ordering, wants_order=wishes[group])
        else:
            await transaction.change(group_statements.SEE_GROUP, (found.stream, transaction.now_us))
        if ordering.is_disputed(transaction.now_us):
            seen.disputed.append(group)
        stalled = (found.stream, KEYS_DEFERRED_MOST)
        if found.keyed and await transaction.value(group_statements.IS_STALLED, stalled):
            seen.stalled.append(group)
    return seen


async def reset(transaction: PostgresTransaction, group: Stream, start: Start) -> bool:
    found = await lock_group(transaction, group)
    if found is None or found.removed:
        return False
    log = await open_log(transaction, group.topic)
    position = await position_of(transaction, log, start)
    await transaction.change(group_statements.RESET_GROUP, (found.stream, position))
    await transaction.change(group_statements.FORGET_DEFERRED, (found.stream,))
    await _take_back(transaction, group, found.stream, log, position)
    transaction.ready.add(group)
    return True


async def _take_back(
    transaction: PostgresTransaction, group: Stream, stream: int, log: LogRow, position: int
) -> None:
    """Delete messages that have a key, were never claimed, and will be drawn again after this position."""
    rows = await transaction.rows(group_statements.LOCK_UNTOUCHED, (stream, log.stream, position))
    ids = [id for _, _, id in rows]
    await transaction.change(message_statements.FORGET, ([stream] * len(ids), ids))
    for place, _, _ in rows:
        transaction.count(stream, place, -1)
    await pass_on(transaction, [EndedMessage(group, stream, key, id) for _, key, id in rows])


async def remove(transaction: PostgresTransaction, group: Stream) -> bool:
    found = await lock_group(transaction, group)
    if found is None or found.removed:
        return False
    stream = found.stream
    for id, awaited in await transaction.rows(group_statements.FORGET_MESSAGES, (stream,)):
        if awaited:
            transaction.ended.add((group, id))
    await transaction.change(group_statements.FORGET_PROGRESS, (stream,))
    await transaction.change(group_statements.FORGET_KEYS, (stream,))
    await transaction.change(group_statements.FORGET_DEFERRED, (stream,))
    await transaction.change(group_statements.CLEAR_COUNTS, (stream,))
    await transaction.change(group_statements.CLEAR_STREAM, (stream,))
    await transaction.change(group_statements.REMOVE_GROUP, (stream,))
    transaction.forget_counts(stream)
    return True
