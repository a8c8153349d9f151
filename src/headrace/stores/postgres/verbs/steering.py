"""The verbs with which people and programs intervene: pause, cancel, purge, replay and similar."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.inspector import BRIEF_TTL_US, PURGED_END_RECORDS
from headrace.core.messages.message import Stream
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.control import CancelNotice, LeaseNotice, PauseNotice
from headrace.core.records.record import JobStatus
from headrace.core.rules.lease import Lease
from headrace.stores.postgres.limits.entering import enter, number_staged
from headrace.stores.postgres.limits.lines import drop_constraints
from headrace.stores.postgres.rows.unique_keys import LockedKeys
from headrace.stores.postgres.rows.written_changes import write_changes
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.session.transaction import PostgresTransaction, TryAgain
from headrace.stores.postgres.statements import (
    drawing_statements,
    group_statements,
    message_statements,
    stream_statements,
)
from headrace.stores.postgres.topics.drawing import draw
from headrace.stores.postgres.topics.key_order import lock_groups, next_in_line_us
from headrace.stores.postgres.topics.log import open_log, write_due
from headrace.stores.sql.change_set import ChangedMessage, ChangeSet
from headrace.stores.sql.cleaning import clean_up
from headrace.stores.sql.lanes import (
    DEAD,
    FIRST_PRIORITY,
    PARKED,
    RETRYING,
    RUNNING,
    SCHEDULED,
)
from headrace.stores.sql.replaying import dead_of, keys_of, replay_of


async def declare(transaction: PostgresTransaction, stream: Stream, lease_us: int) -> int | None:
    number = await transaction.stream(stream)
    (row,) = await transaction.rows(stream_statements.LOCK_LEASE, (number,))
    previous = Lease.stored(*row)
    lease = previous.changed(lease_us, transaction.now_us)
    values = (number, lease.us, lease.longer_us, lease.longer_until_us)
    await transaction.change(stream_statements.WRITE_LEASE, values)
    if previous.us in (None, lease_us):
        return None
    transaction.announce(LeaseNotice(stream, lease_us))
    return previous.us


async def read_lease(connection: PostgresConnection, namespace: str, stream: Stream) -> Lease:
    rows = await connection.rows(stream_statements.READ_LEASE, (namespace, stream.kind, stream.name))
    return Lease.stored(*rows[0]) if rows else Lease()


async def pause(transaction: PostgresTransaction, stream: Stream, *, paused: bool) -> None:
    number = await transaction.stream(stream, established=False)
    await transaction.change(stream_statements.WRITE_PAUSED, (number, paused))
    transaction.announce(PauseNotice(stream, paused))
    if not paused:
        transaction.ready.add(stream)


async def cancel(transaction: PostgresTransaction, stream: Stream, id: str, ttl_us: int) -> CancelAnswer:
    subject = (await _subjects(transaction, stream, [id])).get(id)
    if subject is None or subject.place >= DEAD or subject.expired:
        return CancelAnswer.GONE
    if subject.place == RUNNING:
        await transaction.change(message_statements.ASK_TO_CANCEL, (subject.number, id, ttl_us))
        transaction.announce(CancelNotice(stream, id))
        return CancelAnswer.REQUESTED
    changes = ChangeSet(transaction)
    changes.cancel(subject, ttl_us)
    await write_changes(transaction, changes)
    return CancelAnswer.REMOVED


async def purge(
    transaction: PostgresTransaction,
    stream: Stream,
    ttl_us: int,
    limit: int,
    end_records: int = PURGED_END_RECORDS,
) -> int:
    number = await transaction.find_with_lines(stream)
    if number is None:
        return 0
    if stream.kind == "group":
        # Events that the group has not drawn are queued too. A running event does not run again after that.
        await transaction.change(group_statements.MEET_NOTHING_AGAIN, (number,))
        await transaction.change(drawing_statements.MAKE_DRAWABLE, (number,))
        await draw(transaction, [stream], limit, paused=True)
    now_us = transaction.now_us
    rows = await transaction.rows(message_statements.LOCK_WAITING, (number, limit, now_us))
    subjects = [_subject(stream, number, row) for row in rows]
    values = (number, now_us + BRIEF_TTL_US, end_records)
    kept = max(0, end_records - await transaction.value(message_statements.COUNT_CANCELLED, values))
    changes = ChangeSet(transaction)
    for index, subject in enumerate(subjects):
        # Callers in other processes may wait for the other messages. They look again within a minute.
        changes.cancel(subject, ttl_us if index < kept else min(ttl_us, BRIEF_TTL_US))
    await write_changes(transaction, changes)
    return len(subjects)


async def replay(transaction: PostgresTransaction, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
    subjects = await _subjects(transaction, stream, ids)
    dead = dead_of(subjects)
    if not dead:
        return [ReplayAnswer.GONE] * len(ids)
    number = next(iter(dead.values())).number
    keys = await LockedKeys.lock(transaction, stream, number, keys_of(dead))
    changes = ChangeSet(transaction)
    replay = replay_of(changes, keys, dead, ids)
    await write_changes(transaction, changes)
    await keys.write()
    await _queue_again(transaction, stream, replay.replayed)
    await _park(transaction, replay.parked)
    return replay.answers


async def discard(transaction: PostgresTransaction, stream: Stream, ids: Sequence[str]) -> int:
    dead = list(dead_of(await _subjects(transaction, stream, ids)).values())
    if dead:
        numbers, found = [subject.number for subject in dead], [subject.id for subject in dead]
        await transaction.change(message_statements.FORGET, (numbers, found))
        transaction.count(dead[0].number, DEAD, -len(dead))
        await drop_constraints(
            transaction, {each.constraints for each in dead if each.constraints is not None}
        )
    return len(dead)


async def clean(
    transaction: PostgresTransaction, stream: Stream, ids: Sequence[str], status: JobStatus, ttl_us: int
) -> int:
    if status is JobStatus.DEAD:
        return await discard(transaction, stream, ids)
    changes = ChangeSet(transaction)
    subjects = await _subjects(transaction, stream, ids)
    cleaned = clean_up(changes, subjects.values(), status, ttl_us)
    await write_changes(transaction, changes)
    return cleaned


async def release_key(transaction: PostgresTransaction, stream: Stream, key: str) -> bool:
    number = await transaction.find(stream)
    if number is None:
        return False
    keys = await LockedKeys.lock(transaction, stream, number, [key])
    await transaction.change(message_statements.FREE_KEY, (number, key))
    return key in keys.owners


async def run_now(transaction: PostgresTransaction, stream: Stream, id: str) -> bool:
    subject = (await _subjects(transaction, stream, [id])).get(id)
    if subject is None or subject.place not in (SCHEDULED, RETRYING):
        return False
    if stream.kind == "topic":
        await write_due(transaction, stream, await open_log(transaction, stream.topic), [id])
        return True
    if transaction.has_lines:
        await number_staged(transaction, subject.number, [id])
    await transaction.change(message_statements.QUEUE_NOW, (subject.number, id, transaction.now_us))
    transaction.count(subject.number, subject.place, -1)
    transaction.count(subject.number, FIRST_PRIORITY, 1)
    if transaction.has_lines:
        await enter(transaction, subject.number, [id])
    transaction.ready.add(stream)
    return True


async def rewrite(transaction: PostgresTransaction, stream: Stream, id: str, body: bytes) -> bool:
    subject = (await _subjects(transaction, stream, [id])).get(id)
    if subject is None or subject.place not in (SCHEDULED, RETRYING, DEAD):
        return False
    await transaction.change(message_statements.REWRITE, (subject.number, id, body))
    return True


async def _subjects(
    transaction: PostgresTransaction, stream: Stream, ids: Sequence[str]
) -> dict[str, ChangedMessage]:
    number = await transaction.find_with_lines(stream)
    if number is None:
        return {}
    if stream.kind == "group":
        await lock_groups(transaction, [number])
    values = (number, list(ids), transaction.now_us)
    rows = await transaction.rows(message_statements.LOCK_BY_ID, values)
    subjects = [_subject(stream, number, row) for row in rows]
    if not transaction.has_lines and any([subject.constraints is not None for subject in subjects]):
        raise TryAgain  # the first messages with constraints came in the meantime
    return {subject.id: subject for subject in subjects}


def _subject(stream: Stream, number: int, row: Row) -> ChangedMessage:
    id, place, priority, unique_key, awaited, expired, constraints, child, order_key = row
    return ChangedMessage(
        *(stream, number, id, place, priority),
        unique_key=unique_key,
        awaited=awaited,
        expired=expired,
        constraints=constraints,
        child=child,
        order_key=order_key,
    )


async def _queue_again(transaction: PostgresTransaction, stream: Stream, dead: list[ChangedMessage]) -> None:
    if dead:
        ids = [subject.id for subject in dead]
        if transaction.has_lines:
            await number_staged(transaction, dead[0].number, ids)
        values = (dead[0].number, ids, transaction.now_us)
        await transaction.change(message_statements.REPLAY, values)
        transaction.count(dead[0].number, DEAD, -len(dead))
        transaction.count(dead[0].number, FIRST_PRIORITY, len(dead))
        transaction.ready.add(stream)
        if transaction.has_lines:
            await enter(transaction, dead[0].number, ids)


async def _park(transaction: PostgresTransaction, replayed: list[ChangedMessage]) -> None:
    """Park replayed events behind the other events of their keys."""
    if replayed:
        number = replayed[0].number
        at_us = await next_in_line_us(transaction, number)
        ids = [subject.id for subject in replayed]
        await transaction.change(drawing_statements.PARK, (number, ids, at_us))
        transaction.count(number, FIRST_PRIORITY, -len(replayed))
        transaction.count(number, PARKED, len(replayed))
