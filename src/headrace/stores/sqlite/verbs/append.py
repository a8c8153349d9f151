"""Appends a batch: recognises a repeated batch, decides about each message, writes the accepted ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.errors import Moved
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.ids import LENGTH
from headrace.core.messages.message import Batch, Message, are_alike
from headrace.core.records.answers import Answer
from headrace.core.rules.producers import OUTBOX
from headrace.stores.sql.appending import UNLIMITED, Acceptance, accept, columns_of, due_us_of
from headrace.stores.sql.change_set import ChangeSet
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED, SCHEDULED, SUCCEEDED, lane_for
from headrace.stores.sql.limits.budgets import stored_constraints
from headrace.stores.sql.limits.line_changes import LineChanges
from headrace.stores.sql.limits.order_keys import stored_key
from headrace.stores.sqlite.connection.connection import Bindings
from headrace.stores.sqlite.limits.lines import LineTable, drop_constraints, numbers_of
from headrace.stores.sqlite.limits.ordered_jobs import let_in
from headrace.stores.sqlite.rows.producers import recall, remember
from headrace.stores.sqlite.rows.unique_keys import StreamKeys
from headrace.stores.sqlite.rows.written_changes import write_changes
from headrace.stores.sqlite.statements import limit_statements, message_statements, stream_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed, unlisted
from headrace.stores.sqlite.threads.transaction import StreamRow, Transaction, new_number
from headrace.stores.sqlite.topics.key_order import next_in_line_us


def append(transaction: Transaction, batch: Batch, *, ticking: bool = False) -> list[Answer]:
    if not batch.messages:
        return []
    if len(batch.messages) == 1 and not ticking and (answered := _append_one(transaction, batch)):
        return answered
    stream = transaction.stream(batch.stream, relayed=batch.producer.startswith(OUTBOX))
    answers = recall(transaction, stream.number, batch)
    if answers is None:
        if stream.sealed & 1 and not ticking:
            raise sealed(batch)
        accepted = batch.messages
        if not stream.held_children and any([message.child for message in accepted]):
            transaction.connection.change(stream_statements.NOTE_CHILDREN, (stream.number,))
        if not stream.held_lines and any([message.constraints is not None for message in accepted]):
            transaction.connection.change(limit_statements.NOTE_LINES, (stream.number,))
        if not (_is_plain(batch) and _write(transaction, stream.number, batch, accepted)):
            answers, accepted, absorbed = _decide(transaction, stream, batch)
            _write(transaction, stream.number, batch, accepted)
            _note_absorbed(transaction, stream.number, absorbed)
        complete = answers is None or all(answer.verdict == "accepted" for answer in answers)
        answers = answers or [Answer(message.id) for message in accepted]
        remember(transaction, stream.number, batch, answers, complete=complete)
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
    transaction.ready.add(batch.stream)
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
    if not established or sealed or (last is not None and last >= batch.number):
        return None
    return number if held_children or not batch.messages[0].child else None


def sealed(batch: Batch) -> Moved:
    return Moved(f"{batch.stream.name} is sealed", answers=[None] * len(batch.messages))


def _is_plain(batch: Batch) -> bool:
    """Whether only a known id could prevent the write. The write itself finds known ids, at less cost."""
    return batch.limit is None and all(message.unique is None for message in batch.messages)


def _decide(transaction: Transaction, stream: StreamRow, batch: Batch) -> Acceptance:
    messages = batch.messages
    known = _known_ids(transaction, stream.number, messages)
    wanted = [message.unique.key for message in messages if message.unique]
    keys = StreamKeys(transaction, batch.stream, stream.number, wanted)
    changes = ChangeSet(transaction)
    decided = accept(changes, keys, known, _room(transaction, stream, batch.limit), messages)
    write_changes(transaction, changes)
    keys.write()
    return decided


def _note_absorbed(transaction: Transaction, stream: int, absorbed: list[Message]) -> None:
    """Keep the ids of messages that have replaced others, so that a repeat is known."""
    now_us = transaction.now_us
    rows = [(message.id, message.task, now_us + message.expired_ttl_us) for message in absorbed]
    if rows:
        transaction.connection.change(message_statements.NOTE_ABSORBED, (stream, listed(rows), now_us))


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
    parked = stream.parked + transaction.counted(stream.number, PARKED)
    return limit - queued - scheduled - parked


def _write(transaction: Transaction, stream: int, batch: Batch, accepted: list[Message]) -> bool:
    """Write all accepted messages, or none of them when an id is known."""
    if not accepted:
        return True
    if are_alike(accepted) and all([len(message.id) == LENGTH for message in accepted]):
        return _write_alike(transaction, stream, batch, accepted)
    now_us = transaction.now_us
    bodies = BulkBinding()
    numbers = _constraints(transaction, stream, accepted)
    rows = [
        (
            *(*columns_of(message, now_us), *bodies.put(message.body), int(message.child)),
            *(numbers.get(message.constraints), stored_key(message.key)),
        )
        for message in accepted
    ]
    later = [at_us for _, _, place, at_us, *_ in rows if place == SCHEDULED]
    before_us = transaction.next_due_us([stream]) if later else None
    number = new_number()
    bindings = (stream, listed(rows), bodies.content(), now_us, number)
    if not _add(transaction, message_statements.ADD_MESSAGES, bindings, accepted, number):
        drop_constraints(transaction.connection, numbers.values())
        return False
    if later:
        transaction.announce_if_due_sooner(batch.stream, before_us, min(later))
    if len(later) < len(rows):
        transaction.ready.add(batch.stream)
    transaction.count(stream, SCHEDULED, len(later))
    transaction.count(stream, FIRST_PRIORITY, len(rows) - len(later))
    parked = _park(transaction, stream, accepted) if any([message.key for message in accepted]) else set()
    if numbers:
        _join_lines(transaction, rows, parked)
    return True


def _constraints(
    transaction: Transaction, stream: int, accepted: list[Message]
) -> dict[Constraints | None, int]:
    """The numbers of the constraints of these messages."""
    stored = {
        message.constraints: stored_constraints(message.constraints)
        for message in accepted
        if message.constraints is not None
    }
    if not stored:
        return {}
    numbers = numbers_of(transaction, stream, stored.values())
    return {constraints: numbers[content] for constraints, content in stored.items()}


def _park(transaction: Transaction, stream: int, accepted: list[Message]) -> set[str]:
    """Park the messages whose key another message holds. Returns their ids."""
    now_us = transaction.now_us
    ready = [message for message in accepted if due_us_of(message, now_us) <= now_us]
    answers = let_in(transaction, stream, [(stored_key(message.key), message.id) for message in ready])
    parked = [message.id for message, is_in in zip(ready, answers, strict=True) if not is_in]
    if parked:
        bindings = (stream, listed(parked), next_in_line_us(transaction, stream))
        transaction.connection.change(limit_statements.PARK_IDS, bindings)
        transaction.count(stream, PARKED, len(parked))
        transaction.count(stream, FIRST_PRIORITY, -len(parked))
    return set(parked)


def _join_lines(transaction: Transaction, rows: list[tuple[Any, ...]], parked: set[str]) -> None:
    changes = LineChanges()
    for id, _, place, *_, constraints, _ in rows:
        if constraints is not None and place != SCHEDULED and id not in parked:
            changes.moved[constraints, place] += 1
    LineTable(transaction).follow(changes)


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
    transaction.ready.add(batch.stream)
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
