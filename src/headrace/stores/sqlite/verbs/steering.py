"""The verbs with which people and programs intervene: pause, cancel, purge, replay and similar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.inspector import BRIEF_TTL_US, PURGED_END_RECORDS
from headrace.core.messages.message import Stream
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.control import CancelNotice, LeaseNotice, PauseNotice
from headrace.core.records.record import JobStatus
from headrace.core.rules.lease import Lease
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
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.limits.entering import enter
from headrace.stores.sqlite.limits.lines import drop_constraints
from headrace.stores.sqlite.rows.expiry import has_expired
from headrace.stores.sqlite.rows.readable_ids import mend_id, seq_of
from headrace.stores.sqlite.rows.unique_keys import StreamKeys, owners
from headrace.stores.sqlite.rows.written_changes import write_changes
from headrace.stores.sqlite.statements import (
    limit_statements,
    message_statements,
    stream_statements,
    topic_statements,
    upkeep_statements,
)
from headrace.stores.sqlite.statements.bulk_binding import listed, unlisted
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.drawing import draw
from headrace.stores.sqlite.topics.key_order import next_in_line_us
from headrace.stores.sqlite.topics.log import write_due


def declare_stream(transaction: Transaction, stream: Stream, lease_us: int) -> int | None:
    number = transaction.stream(stream).number
    previous = read_lease(transaction.connection, transaction.namespace, stream)
    transaction.write_lease(number, previous.changed(lease_us, transaction.now_us))
    if previous.us in (None, lease_us):
        return None
    transaction.announce(LeaseNotice(stream, lease_us))
    return previous.us


def read_lease(connection: Connection, namespace: str, stream: Stream) -> Lease:
    row = connection.row(stream_statements.READ_LEASE, (namespace, stream.kind, stream.name))
    return Lease.stored(*row) if row else Lease()


def pause(transaction: Transaction, stream: Stream, *, paused: bool) -> None:
    number = transaction.stream(stream, established=False).number
    transaction.connection.change(stream_statements.WRITE_PAUSED, (int(paused), number))
    transaction.announce(PauseNotice(stream, paused))
    if not paused:
        transaction.ready.add(stream)


def cancel(transaction: Transaction, stream: Stream, id: str, ttl_us: int) -> CancelAnswer:
    subject = _subjects(transaction, stream, [id]).get(id)
    if subject is None or subject.place >= DEAD or subject.expired:
        return CancelAnswer.GONE
    if subject.place == RUNNING:
        transaction.connection.change(message_statements.ASK_TO_CANCEL, (ttl_us, subject.seq))
        transaction.announce(CancelNotice(stream, id))
        return CancelAnswer.REQUESTED
    changes = ChangeSet(transaction)
    changes.cancel(subject, ttl_us)
    write_changes(transaction, changes)
    return CancelAnswer.REMOVED


def purge(
    transaction: Transaction, stream: Stream, ttl_us: int, limit: int, end_records: int = PURGED_END_RECORDS
) -> int:
    found = transaction.find(stream)
    if found is None:
        return 0
    if stream.kind == "group":
        # Events that the group has not drawn are queued too. A running event does not run again after that.
        transaction.connection.change(topic_statements.MEET_NOTHING_AGAIN, (found.number,))
        transaction.connection.change(topic_statements.MAKE_ALL_DRAWABLE, (found.number,))
        draw(transaction, [stream], limit, paused=True)
    now_us = transaction.now_us
    rows = unlisted(
        transaction.connection.value(message_statements.READ_WAITING, (found.number, limit, now_us))
    )
    subjects = [_subject(stream, row, now_us) for row in rows]
    bindings = (found.number, now_us + BRIEF_TTL_US, end_records)
    kept = max(0, end_records - transaction.connection.value(message_statements.COUNT_CANCELLED, bindings))
    changes = ChangeSet(transaction)
    for index, subject in enumerate(subjects):
        # Callers in other processes may wait for the other messages. They look again within a minute.
        changes.cancel(subject, ttl_us if index < kept else min(ttl_us, BRIEF_TTL_US))
    write_changes(transaction, changes)
    return len(subjects)


def replay(transaction: Transaction, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
    subjects = _subjects(transaction, stream, ids)
    dead = dead_of(subjects)
    if not dead:
        return [ReplayAnswer.GONE] * len(ids)
    number = next(iter(dead.values())).number
    keys = StreamKeys(transaction, stream, number, keys_of(dead))
    changes = ChangeSet(transaction)
    replay = replay_of(changes, keys, dead, ids)
    write_changes(transaction, changes)
    keys.write()
    _queue_again(transaction, stream, replay.replayed)
    _park(transaction, replay.parked)
    return replay.answers


def discard(transaction: Transaction, stream: Stream, ids: Sequence[str]) -> int:
    dead = list(dead_of(_subjects(transaction, stream, ids)).values())
    if dead:
        transaction.connection.change(message_statements.FORGET, (listed(subject.seq for subject in dead),))
        transaction.count(dead[0].number, DEAD, -len(dead))
        numbers = {subject.constraints for subject in dead if subject.constraints is not None}
        drop_constraints(transaction.connection, numbers)
    return len(dead)


def clean(
    transaction: Transaction, stream: Stream, ids: Sequence[str], status: JobStatus, ttl_us: int
) -> int:
    if status is JobStatus.DEAD:
        return discard(transaction, stream, ids)
    changes = ChangeSet(transaction)
    cleaned = clean_up(changes, _subjects(transaction, stream, ids).values(), status, ttl_us)
    write_changes(transaction, changes)
    return cleaned


def release_key(transaction: Transaction, stream: Stream, key: str) -> bool:
    found = transaction.find(stream)
    if found is None or not owners(transaction.connection, stream, found.number, [key], transaction.now_us):
        return False
    transaction.connection.change(message_statements.FREE_KEY, (found.number, key))
    return True


def run_now(transaction: Transaction, stream: Stream, id: str) -> bool:
    subject = _subjects(transaction, stream, [id]).get(id)
    if subject is None or subject.place not in (SCHEDULED, RETRYING):
        return False
    if stream.kind == "topic":
        write_due(transaction, stream, [subject.seq])
        return True
    transaction.connection.change(upkeep_statements.PROMOTE, (listed([subject.seq]), transaction.now_us))
    transaction.count(subject.number, subject.place, -1)
    transaction.count(subject.number, FIRST_PRIORITY, 1)
    _enter(transaction, [subject])
    transaction.ready.add(stream)
    return True


def rewrite(transaction: Transaction, stream: Stream, id: str, body: bytes) -> bool:
    subject = _subjects(transaction, stream, [id]).get(id)
    if subject is None or subject.place not in (SCHEDULED, RETRYING, DEAD):
        return False
    transaction.connection.change(message_statements.REWRITE, (body, subject.seq))
    return True


def _subjects(transaction: Transaction, stream: Stream, ids: Sequence[str]) -> dict[str, ChangedMessage]:
    found = transaction.find(stream)
    if found is None:
        return {}
    for seq in filter(None, map(seq_of, ids)):
        mend_id(transaction.connection, seq)
    bindings = (found.number, listed(ids), transaction.now_us)
    rows = unlisted(transaction.connection.value(message_statements.READ_BY_ID, bindings))
    subjects = (_subject(stream, row, transaction.now_us) for row in rows)
    return {subject.id: subject for subject in subjects}


def _subject(stream: Stream, row: list[Any], now_us: int) -> ChangedMessage:
    seq, number, place, priority, unique_key, id, expires_us, state, constraints, child, order_key = row
    expired = has_expired(place, expires_us, state, now_us)
    return ChangedMessage(
        *(stream, number, id, place, priority),
        unique_key=unique_key,
        expired=expired,
        seq=seq,
        constraints=constraints,
        child=bool(child),
        order_key=order_key,
    )


def _queue_again(transaction: Transaction, stream: Stream, dead: list[ChangedMessage]) -> None:
    if dead:
        seqs = listed(subject.seq for subject in dead)
        transaction.connection.change(message_statements.REPLAY, (seqs, transaction.now_us))
        transaction.count(dead[0].number, DEAD, -len(dead))
        transaction.count(dead[0].number, FIRST_PRIORITY, len(dead))
        transaction.ready.add(stream)
        _enter(transaction, dead)


def _enter(transaction: Transaction, subjects: list[ChangedMessage]) -> None:
    """Jobs with constraints or with a key were queued."""
    concerned = [each for each in subjects if each.constraints is not None or each.order_key is not None]
    if concerned:
        seqs = listed(each.seq for each in concerned)
        jobs = unlisted(transaction.connection.value(limit_statements.READ_QUEUED, (seqs,)))
        enter(transaction, concerned[0].number, jobs)


def _park(transaction: Transaction, replayed: list[ChangedMessage]) -> None:
    """Park replayed events behind the other events of their keys."""
    if replayed:
        number = replayed[0].number
        at_us = next_in_line_us(transaction, number)
        seqs = listed(subject.seq for subject in replayed)
        transaction.connection.change(topic_statements.PARK, (seqs, at_us))
        transaction.count(number, FIRST_PRIORITY, -len(replayed))
        transaction.count(number, PARKED, len(replayed))
