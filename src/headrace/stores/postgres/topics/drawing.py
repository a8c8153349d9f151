"""Draws events from the log of a topic into the stream of a group, where they are then claimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.core.messages.message import NORMAL, Stream
from headrace.core.topics.deferred_keys import DeferredKeys
from headrace.core.topics.drawing import ROUNDS, ROUNDS_BACK, CandidateEvent, DrawingChoice, DrawingGroup
from headrace.core.topics.topic import DRAWN_AHEAD, KEYS_DEFERRED_MOST
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import drawing_statements, group_statements, message_statements
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED

from .key_order import next_in_line_us
from .log import measure

#: The lane in which drawn events are queued.
LANE: Final = FIRST_PRIORITY + NORMAL


class GroupNeeds(NamedTuple):
    """Whether one of the groups would draw something, or must be created again; whether one has a message
    that is ready."""

    drawing: bool
    claiming: bool


async def needs_of(connection: PostgresConnection, namespace: str, groups: Sequence[Stream]) -> GroupNeeds:
    values = (namespace, [group.name for group in groups], KEYS_DEFERRED_MOST)
    rows = await connection.rows(drawing_statements.WHAT_GROUPS_NEED, values)
    return GroupNeeds(*rows[0])


async def draw(
    transaction: PostgresTransaction, groups: Sequence[Stream], limit: int, *, paused: bool = False
) -> None:
    """Fill the lanes of each group up to `limit`. With `paused`, paused groups draw too."""
    wanted = min(limit, DRAWN_AHEAD)
    by_name = {group.name: group for group in groups}
    values = (transaction.namespace, list(by_name), not paused)
    locked = [stream for (stream,) in await transaction.rows(drawing_statements.LOCK_BEHIND, values)]
    # Read after the lock: another transaction may have drawn in the meantime.
    rows = await transaction.rows(drawing_statements.LIST_BEHIND, (locked, wanted)) if locked else []
    for name, stream, topic, position, last, ordered, again, parked, ready in rows:
        parked += transaction.counted(stream, PARKED)
        before = await _read_deferred(transaction, stream)
        behind = DrawingGroup(
            by_name[name],
            stream,
            topic,
            position,
            last,
            ordered,
            again,
            parked,
            wanted - ready,
            before.copy(),
        )
        await _catch_up(transaction, behind)
        await _draw_for(transaction, behind)
        await _write_deferred(transaction, stream, before, behind.deferred)


async def _draw_for(transaction: PostgresTransaction, behind: DrawingGroup) -> None:
    before = behind.position
    for far in range(ROUNDS):
        if not behind.has_to_draw:
            break
        if limit := behind.looks_ahead(far):
            await _choose(transaction, behind, limit)
        else:
            await _take(transaction, behind)
    else:
        transaction.ready.add(behind.group)  # the next claim reads on
    if behind.position != before:
        await transaction.change(group_statements.MOVE_GROUP, (behind.stream, behind.position))


async def _take(transaction: PostgresTransaction, behind: DrawingGroup) -> None:
    """Draw the next events in one statement. Events that the group already has conflict, and are skipped."""
    reach = await measure(transaction, behind.topic, behind.position, behind.last, limit=behind.wanted)
    if reach is None:
        behind.position = behind.last  # all these events were trimmed
        return
    part = (behind.stream, behind.topic, behind.position, reach.end)
    if await transaction.value(drawing_statements.HAS_END_RECORDS, (behind.stream,)):
        await transaction.change(drawing_statements.FORGET_END_RECORDS, part)
    drawn = await transaction.change(drawing_statements.DRAW, (*part, transaction.now_us))
    transaction.count(behind.stream, LANE, drawn)
    behind.position = reach.end
    behind.wanted -= drawn
    behind.room -= reach.size


# --- one by one ------------------------------------------------------------------------------------------


async def _choose(transaction: PostgresTransaction, behind: DrawingGroup, limit: int) -> None:
    """Draw the next events one by one. Used when some must be parked, or when many are skipped."""
    values = (behind.stream, behind.topic, behind.position, behind.last, limit)
    ahead = [CandidateEvent(*row) for row in await transaction.rows(drawing_statements.LOOK_AHEAD, values)]
    if not ahead:
        behind.position = behind.last
        return
    choice = await _choice(transaction, behind, ahead)
    choice.move_on(ahead)
    await _write(transaction, behind, choice, keys_count=behind.ordered)


async def _catch_up(transaction: PostgresTransaction, behind: DrawingGroup) -> None:
    """Draw events of deferred keys from before the position."""
    for _ in range(ROUNDS_BACK):
        if not behind.has_to_catch_up:
            return
        part = behind.look_back()
        values = (behind.stream, behind.topic, part.start - 1, part.end, DRAWN_AHEAD, part.keys)
        found = [CandidateEvent(*row) for row in await transaction.rows(drawing_statements.LOOK_BACK, values)]
        choice = await _choice(transaction, behind, found)
        choice.catch_up(found, part)
        await _write(transaction, behind, choice, keys_count=True)
    if behind.deferred.drawable:
        transaction.ready.add(behind.group)


async def _choice(
    transaction: PostgresTransaction, behind: DrawingGroup, ahead: Sequence[CandidateEvent]
) -> DrawingChoice:
    keys = behind.keys_to_count(ahead)
    if not keys:
        return DrawingChoice(behind, {})
    parked = await transaction.rows(drawing_statements.COUNT_PARKED, (behind.stream, keys))
    return DrawingChoice(behind, dict(parked))


async def _write(
    transaction: PostgresTransaction, behind: DrawingGroup, choice: DrawingChoice, *, keys_count: bool
) -> None:
    if not choice.drawn:
        return
    stream = behind.stream
    if await transaction.value(drawing_statements.HAS_END_RECORDS, (stream,)):
        await transaction.change(drawing_statements.FORGET_END_RECORDS_OF, (stream, list(choice.ids)))
    parked_us = await next_in_line_us(transaction, stream)
    drawn = columns([(number, PARKED if waits else LANE) for number, waits in choice.drawn])
    values = (stream, behind.topic, transaction.now_us, parked_us, keys_count)
    await transaction.change(drawing_statements.DRAW_CHOSEN, (*values, *drawn))
    if choice.keys:
        held = columns([(key, id, None) for key, id in choice.keys.items()])
        await transaction.change(message_statements.TAKE_KEYS, (stream, *held))
    transaction.count(stream, PARKED, choice.parked)
    transaction.count(stream, LANE, len(choice.drawn) - choice.parked)


# --- deferred keys ----------------------------------------------------------------------------------------


async def _read_deferred(transaction: PostgresTransaction, group: int) -> DeferredKeys:
    return DeferredKeys.of(await transaction.rows(drawing_statements.LIST_DEFERRED, (group,)))


async def _write_deferred(
    transaction: PostgresTransaction, group: int, before: DeferredKeys, after: DeferredKeys
) -> None:
    """Write only the keys that have changed."""
    changed, gone = after.changes_since(before)
    if changed:
        await transaction.change(drawing_statements.WRITE_DEFERRED, (group, *columns(changed)))
    if gone:
        await transaction.change(drawing_statements.DROP_DEFERRED, (group, gone))
