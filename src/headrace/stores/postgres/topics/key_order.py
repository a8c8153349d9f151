"""Passes the keys of ordered groups on: when a message ends, the first one parked behind it gets the key."""

from __future__ import annotations

from collections.abc import Collection

from headrace.core.topics.topic import DRAWABLE_BELOW
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import drawing_statements, group_statements, message_statements
from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sql.rows.topic_rows import behind_parked_us


async def lock_groups(transaction: PostgresTransaction, streams: Collection[int]) -> None:
    """Keep other transactions from drawing, and from passing keys on, in the groups that have keys."""
    if streams:
        await transaction.rows(group_statements.LOCK_KEYED, (sorted(streams),))


async def pass_on(transaction: PostgresTransaction, ended: list[EndedMessage]) -> None:
    """Pass on the keys of ended messages. Their rows must have left their places before, and their groups
    must be locked."""
    if not ended:
        return
    held = columns([(each.stream, each.key, each.id) for each in ended])
    await transaction.change(message_statements.RELEASE_KEYS, held)
    freed = columns(dict.fromkeys((each.stream, each.key) for each in ended))
    following = await transaction.rows(drawing_statements.FIND_NEXT, freed)
    if following:
        unparked = columns([(stream, id) for stream, _, id in following])
        await transaction.change(drawing_statements.UNPARK, (*unparked, transaction.now_us))
        await transaction.change(drawing_statements.HAND_OVER_KEYS, columns(following))
    if await transaction.change(drawing_statements.NOTE_ROOM, (*freed, DRAWABLE_BELOW)):
        transaction.ready.update(each.group for each in ended)
    groups = {each.stream: each.group for each in ended}
    for stream, _, _ in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.ready.add(groups[stream])


async def next_in_line_us(transaction: PostgresTransaction, stream: int) -> int:
    """The time to give to the next parked message."""
    last_us = await transaction.value(drawing_statements.LAST_PARKED, (stream,))
    return behind_parked_us(last_us, transaction.now_us)
