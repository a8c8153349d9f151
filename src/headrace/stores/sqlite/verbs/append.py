"""Appends a batch: recognises a repeated batch, decides about each message, writes the accepted ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.core.errors import Moved
from headrace.core.messages.ids import LENGTH
from headrace.core.messages.message import Batch, Message, Stream, are_alike
from headrace.core.records.answers import Answer
from headrace.stores.sqlite.connection.connection import Bindings
from headrace.stores.sqlite.rows.lanes import EXPIRED, FIRST_PRIORITY, SCHEDULED, SUCCEEDED, lane_for
from headrace.stores.sqlite.rows.pending_changes import ChangedMessage, PendingChanges
from headrace.stores.sqlite.rows.producers import recall, remember
from headrace.stores.sqlite.rows.unique_keys import ExpiredOwner, StreamKeys
from headrace.stores.sqlite.statements import message_statements, stream_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed, unlisted
from headrace.stores.sqlite.threads.transaction import StreamRow, Transaction, new_number

#: The room in a stream without a limit.
UNLIMITED: Final = 1 << 62

#: What `message_statements.ADD_MESSAGES` needs of a message.
Row = tuple[str, str, int, int, int, int, int, str | None, str | None, int | None, int, int]


def append(transaction: Transaction, batch: Batch, *, ticking: bool = False) -> list[Answer]:
    if not batch.messages:
        return []
    if len(batch.messages) == 1 and not ticking and (answered := _append_one(transaction, batch)):
        return answered
    stream = transaction.stream(batch.stream)
    answers = recall(transaction, stream.number, batch)
    if answers is None:
        if stream.sealed and not ticking:
            raise sealed(batch)
        accepted = batch.messages
        if not stream.held_children and any([message.child for message in accepted]):
            transaction.connection.change(stream_statements.NOTE_CHILDREN, (stream.number,))
        if not (_is_plain(batch) and _write(transaction, stream.number, batch, accepted)):
            answers, accepted = _decide(transaction, stream, batch)
            _write(transaction, stream.number, batch, accepted)
        answers = answers or [Answer(message.id) for message in accepted]
        remember(transaction, stream.number, batch, answers, complete=len(accepted) == len(answers))
    return answers


def _append_one(transaction: Transaction, batch: Batch) -> list[Answer] | None:
    """Append one plain message, as most calls do: the work of `append` in fewer statements. None: nothing was
    written, and `append` must decide about this batch."""
    message = batch.messages[0]
    if batch.limit is not None or not message.plain:
        return None
    stream = _find_open_stream(transaction, batch)
    if stream is None:
        return None
    lane, now_us = FIRST_PRIORITY + message.priority, transaction.now_us
    row = (
        *(stream, message.id, message.task, lane_for(lane, child=message.child), now_us, lane),
        *(message.priority, message.body, new_number(), int(message.child)),
    )
    if not transaction.connection.change(message_statements.ADD_MESSAGE, row):
        return None  # its id is known
    answers = [Answer(message.id)]
    remember(transaction, stream, batch, answers, complete=True)
    transaction.changes.ready.add(batch.stream)
    transaction.count(stream, FIRST_PRIORITY, 1)
    return answers


def _find_open_stream(transaction: Transaction, batch: Batch) -> int | None:
    """The number of the stream, if it accepts this message and the batch cannot be a repeat."""
    stream = batch.stream
    name = (transaction.namespace, stream.kind, stream.name, batch.producer)
    found = transaction.connection.row(message_statements.FIND_STREAM_FOR_ONE, name)
    if found is None:
        return None
    number, established, sealed, held_children, last = found
    if not established or sealed or last == batch.number:
        return None
    return number if held_children or not batch.messages[0].child else None


def sealed(batch: Batch) -> Moved:
    return Moved(f"{batch.stream.name} is sealed", answers=[None] * len(batch.messages))


def _is_plain(batch: Batch) -> bool:
    """Whether only a known id could prevent the write. The write itself finds known ids, at less cost."""
    return batch.limit is None and all(message.unique is None for message in batch.messages)


def _decide(transaction: Transaction, stream: StreamRow, batch: Batch) -> tuple[list[Answer], list[Message]]:
    messages = batch.messages
    known = _known_ids(transaction, stream.number, messages)
    keys = StreamKeys(
        transaction, stream.number, [message.unique.key for message in messages if message.unique]
    )
    room = _room(transaction, stream, batch.limit)
    answers: list[Answer] = []
    accepted: list[Message] = []
    pending = PendingChanges(transaction)
    for message in messages:
        id, unique = message.id, message.unique
        if id in known:
            answers.append(Answer(id, "duplicate"))
            continue
        if unique is not None and (owner := keys.owner(unique.key)) is not None:
            answers.append(Answer(owner, "duplicate"))
            continue
        expired = keys.expired_owner(unique.key) if unique is not None else None
        if len(accepted) >= room + (expired is not None):
            answers.append(Answer(id, "full"))
            continue
        if unique is not None:
            if expired is not None:
                end_expired(pending, batch.stream, stream.number, expired, unique.key, message.expired_ttl_us)
                room += 1
            keys.take(unique, id)
        known.add(id)
        accepted.append(message)
        answers.append(Answer(id))
    pending.write()
    keys.write()
    return answers, accepted


def end_expired(
    pending: PendingChanges, stream: Stream, number: int, owner: ExpiredOwner, key: str, ttl_us: int
) -> None:
    """End the expired owner of a key, so that an accepted message can take the key."""
    seq, id, place, priority = owner
    subject = ChangedMessage(seq, stream, number, id, place, priority, unique_key=key)
    pending.end(subject, EXPIRED, ttl_us=ttl_us)


def _known_ids(transaction: Transaction, stream: int, messages: list[Message]) -> set[str]:
    """Which of these ids are taken. Deletes end records whose time has passed."""
    ids = listed([message.id for message in messages])
    rows = unlisted(transaction.connection.value(message_statements.FIND_IDS, (stream, ids)))
    past = [seq for seq, _, place, at_us in rows if place >= SUCCEEDED and at_us <= transaction.now_us]
    if past:
        transaction.connection.change(message_statements.FORGET, (listed(past),))
    gone = set(past)
    return {id for seq, id, _, _ in rows if seq not in gone}


def _room(transaction: Transaction, stream: StreamRow, limit: int | None) -> int:
    if limit is None:
        return UNLIMITED
    queued = stream.queued + transaction.counted(stream.number, FIRST_PRIORITY)
    scheduled = stream.scheduled + transaction.counted(stream.number, SCHEDULED)
    return limit - queued - scheduled


def _write(transaction: Transaction, stream: int, batch: Batch, accepted: list[Message]) -> bool:
    """Write all accepted messages, or none of them when an id is known."""
    if not accepted:
        return True
    if are_alike(accepted) and all([len(message.id) == LENGTH for message in accepted]):
        return _write_alike(transaction, stream, batch, accepted)
    now_us = transaction.now_us
    bodies = BulkBinding()
    rows = [_row(message, bodies, now_us) for message in accepted]
    later = [at_us for _, _, place, at_us, *_ in rows if place == SCHEDULED]
    before_us = transaction.next_due_us([stream]) if later else None
    number = new_number()
    bindings = (stream, listed(rows), bodies.content(), now_us, number)
    if not _add(transaction, message_statements.ADD_MESSAGES, bindings, accepted, number):
        return False
    if later:
        transaction.announce_if_due_sooner(batch.stream, before_us, min(later))
    if len(later) < len(rows):
        transaction.changes.ready.add(batch.stream)
    transaction.count(stream, SCHEDULED, len(later))
    transaction.count(stream, FIRST_PRIORITY, len(rows) - len(later))
    return True


def _write_alike(transaction: Transaction, stream: int, batch: Batch, accepted: list[Message]) -> bool:
    first = accepted[0]
    bodies = b"".join([message.body for message in accepted])
    ids = "".join([message.id for message in accepted]).encode()
    number = new_number()
    bindings = (
        *(stream, ids, first.task, FIRST_PRIORITY + first.priority, transaction.now_us, first.priority),
        *(bodies, number, listed(_spans(accepted)), int(first.child)),
    )
    if not _add(transaction, message_statements.ADD_ALIKE, bindings, accepted, number):
        return False
    transaction.changes.ready.add(batch.stream)
    transaction.count(stream, FIRST_PRIORITY, len(accepted))
    return True


def _add(
    transaction: Transaction, sql: str, bindings: Bindings, messages: list[Message], number: int
) -> bool:
    if transaction.connection.change(sql, bindings) == len(messages):
        return True
    ids = listed(message.id for message in messages)
    transaction.connection.change(message_statements.TAKE_BACK, (bindings[0], ids, number))
    return False


def _spans(messages: list[Message]) -> Iterator[int]:
    """For each body: its start in the joined bodies, counted from 1, and its length in the lower 32 bits."""
    start = 1
    for message in messages:
        length = len(message.body)
        yield start << 32 | length
        start += length


def _row(message: Message, bodies: BulkBinding, now_us: int) -> Row:
    priority, unique, child = message.priority, message.unique, message.child
    due_us = max(message.due_us, now_us + message.delay_us)
    lane = FIRST_PRIORITY + priority
    place, at_us = (SCHEDULED, due_us) if due_us > now_us else (lane_for(lane, child=child), now_us)
    expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
    key, until = (unique.key, unique.until) if unique else (None, None)
    start, length = bodies.put(message.body)
    stored = start, length, int(child)
    return message.id, message.task, place, at_us, lane, priority, expires_us, key, until, *stored
