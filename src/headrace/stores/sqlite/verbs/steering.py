"""The verbs with which people and programs intervene: pause, cancel, purge, replay and similar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.inspector import BRIEF_TTL_US, PURGED_END_RECORDS
from headrace.core.messages.message import EXPIRED_TTL_US, Stream, UniqueKey
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.control import CancelNotice, LeaseNotice, PauseNotice
from headrace.core.rules.lease import Lease
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.rows.lanes import (
    CANCELLED,
    DEAD,
    EXPIRED,
    FIRST_PRIORITY,
    PARKED,
    RETRYING,
    RUNNING,
    SCHEDULED,
    has_expired,
)
from headrace.stores.sqlite.rows.pending_changes import ChangedMessage, PendingChanges
from headrace.stores.sqlite.rows.readable_ids import mend_id, seq_of
from headrace.stores.sqlite.rows.unique_keys import StreamKeys
from headrace.stores.sqlite.statements import (
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

from .append import end_expired


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
        transaction.changes.ready.add(stream)


def cancel(transaction: Transaction, stream: Stream, id: str, ttl_us: int) -> CancelAnswer:
    subject = _subjects(transaction, stream, [id]).get(id)
    if subject is None or subject.place >= DEAD or subject.expired:
        return CancelAnswer.GONE
    if subject.place == RUNNING:
        transaction.connection.change(message_statements.ASK_TO_CANCEL, (ttl_us, subject.seq))
        transaction.announce(CancelNotice(stream, id))
        return CancelAnswer.REQUESTED
    _cancel_all(transaction, [subject], ttl_us)
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
    _cancel_all(transaction, subjects[:kept], ttl_us)
    # Callers in other processes may wait for these messages. They look again within a minute.
    _cancel_all(transaction, subjects[kept:], min(ttl_us, BRIEF_TTL_US))
    return len(subjects)


def replay(transaction: Transaction, stream: Stream, ids: Sequence[str]) -> list[ReplayAnswer]:
    subjects = _subjects(transaction, stream, ids)
    dead = {id: subject for id, subject in subjects.items() if subject.place == DEAD}
    if not dead:
        return [ReplayAnswer.GONE] * len(ids)
    number = next(iter(dead.values())).number
    wanted = [subject.unique_key for subject in dead.values() if subject.unique_key is not None]
    keys = StreamKeys(transaction, number, wanted)
    replayed: list[ChangedMessage] = []
    parked: list[ChangedMessage] = []
    ordered = stream.kind == "group"
    pending = PendingChanges(transaction)
    answers: list[ReplayAnswer] = []
    for id in ids:
        subject = dead.pop(id, None)
        if subject is None:
            answers.append(ReplayAnswer.GONE)
        elif subject.unique_key is not None and keys.owner(subject.unique_key) is not None:
            # In an ordered group the key decides the order: the event waits behind the others of its key.
            if ordered:
                parked.append(subject)
            else:
                dead[id] = subject  # it stays dead, also when the caller names it again
            answers.append(ReplayAnswer.REPLAYED if ordered else ReplayAnswer.DUPLICATE)
        else:
            if subject.unique_key is not None:
                if expired := keys.expired_owner(subject.unique_key):
                    end_expired(pending, stream, number, expired, subject.unique_key, EXPIRED_TTL_US)
                keys.take(UniqueKey(subject.unique_key), id)
            replayed.append(subject)
            answers.append(ReplayAnswer.REPLAYED)
    pending.write()
    keys.write()
    _queue_again(transaction, stream, [*replayed, *parked])
    _park(transaction, parked)
    return answers


def discard(transaction: Transaction, stream: Stream, ids: Sequence[str]) -> int:
    dead = [subject for subject in _subjects(transaction, stream, ids).values() if subject.place == DEAD]
    if dead:
        transaction.connection.change(message_statements.FORGET, (listed(subject.seq for subject in dead),))
        transaction.count(dead[0].number, DEAD, -len(dead))
    return len(dead)


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
    transaction.changes.ready.add(stream)
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
    seq, number, place, priority, unique_key, id, expires_us, state = row
    expired = has_expired(place, expires_us, state, now_us)
    return ChangedMessage(seq, stream, number, id, place, priority, unique_key=unique_key, expired=expired)


def _cancel_all(transaction: Transaction, subjects: list[ChangedMessage], ttl_us: int) -> None:
    pending = PendingChanges(transaction)
    for subject in subjects:
        pending.end(subject, EXPIRED if subject.expired else CANCELLED, ttl_us=ttl_us)
    pending.write()


def _queue_again(transaction: Transaction, stream: Stream, dead: list[ChangedMessage]) -> None:
    if dead:
        seqs = listed(subject.seq for subject in dead)
        transaction.connection.change(message_statements.REPLAY, (seqs, transaction.now_us))
        transaction.count(dead[0].number, DEAD, -len(dead))
        transaction.count(dead[0].number, FIRST_PRIORITY, len(dead))
        transaction.changes.ready.add(stream)


def _park(transaction: Transaction, replayed: list[ChangedMessage]) -> None:
    """Park replayed events behind the other events of their keys."""
    if replayed:
        number = replayed[0].number
        at_us = next_in_line_us(transaction, number)
        seqs = listed(subject.seq for subject in replayed)
        transaction.connection.change(topic_statements.PARK, (seqs, at_us))
        transaction.count(number, FIRST_PRIORITY, -len(replayed))
        transaction.count(number, PARKED, len(replayed))
