"""Keeps the order of jobs that have a key: one of them is let in, and the others are parked behind it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.messages.message import Message
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.rows.unique_keys import release_keys
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import drawing_statements, limit_statements, message_statements
from headrace.stores.sql.change_set import EndedMessage
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sql.limits import order_keys
from headrace.stores.sql.limits.line_changes import LineChanges


def line_of(message: Message) -> Constraints | None:
    """The constraints by which a message waits in a line; None: it waits in a lane. A job that has only an
    order key waits in a line, too. So workers of an older version never claim it: they would not let in the
    next job of the key."""
    if message.constraints is not None:
        return message.constraints
    return NO_CONSTRAINTS if message.key else None


async def let_in(
    transaction: PostgresTransaction, stream: int, wanted: Sequence[tuple[str | None, str]]
) -> list[bool]:
    """Give jobs their keys, each job as key and id. False: another job holds the key. A job without a key is
    always let in."""
    keys = order_keys.wanted_keys(wanted)
    if not keys:
        return [True] * len(wanted)
    holders: dict[str, str] = dict(await transaction.rows(limit_statements.FIND_HOLDERS, (stream, keys)))
    answers, taken = order_keys.let_in(wanted, holders)
    if taken:
        await transaction.change(message_statements.TAKE_KEYS, (stream, *columns(taken)))
    return answers


async def pass_on_jobs(
    transaction: PostgresTransaction, ended: list[EndedMessage], lines: LineChanges
) -> None:
    """Let in the next jobs of the keys of ended jobs. Their rows must have left their places before."""
    if not ended:
        return
    await release_keys(transaction, [(each.stream, each.key, each.id) for each in ended])
    freed = columns(dict.fromkeys((each.stream, each.key) for each in ended))
    following = await transaction.rows(limit_statements.FIND_NEXT_JOBS, freed)
    if not following:
        return
    unparked = columns([(stream, id) for stream, _, id, _, _ in following])
    await transaction.change(limit_statements.UNPARK_JOBS, (*unparked, transaction.now_us))
    await transaction.change(drawing_statements.HAND_OVER_KEYS, columns([row[:3] for row in following]))
    streams = {each.stream: each.group for each in ended}
    for stream, _, _, constraints, place in following:
        transaction.count(stream, PARKED, -1)
        transaction.count(stream, FIRST_PRIORITY, 1)
        transaction.ready.add(streams[stream])
        lines.moved[constraints, place] += 1
