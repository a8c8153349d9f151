"""Appends a batch to a topic: recognises a repeated batch and skips events that were published before. Writes
the others to the log, or to the topic's stream when they are due later."""

from __future__ import annotations

from headrace.core.messages.message import Batch, Message
from headrace.core.records.answers import Answer
from headrace.core.rules.producers import OUTBOX
from headrace.core.topics.topic import TRIMMED_BESIDE
from headrace.stores.sql.appending import UNLIMITED, accept_events, due_us_of, event_columns_of
from headrace.stores.sql.lanes import SCHEDULED
from headrace.stores.sqlite.rows.producers import recall, remember
from headrace.stores.sqlite.rows.unique_keys import StreamKeys
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed
from headrace.stores.sqlite.threads.transaction import STORE_SEALED, Transaction, new_number
from headrace.stores.sqlite.verbs.append import sealed

from .log import LogTable, open_log, write
from .retention import room_for, trim


def publish(transaction: Transaction, batch: Batch, *, ticking: bool = False) -> list[Answer]:
    if not batch.messages:
        return []
    log = open_log(transaction, batch.stream.topic)
    if log.sealed >= STORE_SEALED:
        transaction.stream(batch.stream, relayed=batch.producer.startswith(OUTBOX))
    answers = recall(transaction, log.stream, batch)
    if answers is None:
        if log.sealed & 1 and not ticking:
            raise sealed(batch)
        if batch.limit is not None:
            trim(transaction, log, len(batch.messages) + TRIMMED_BESIDE)
            log = open_log(transaction, batch.stream.topic)
        answers, accepted = _decide(transaction, log, batch)
        log = _write(transaction, batch, log, accepted)
        remember(transaction, log.stream, batch, answers, complete=len(accepted) == len(answers))
        trim(transaction, log, len(accepted) + TRIMMED_BESIDE)
    return answers


def _decide(transaction: Transaction, log: LogTable, batch: Batch) -> tuple[list[Answer], list[Message]]:
    messages = batch.messages
    wanted = [message.unique.key for message in messages if message.unique]
    if not wanted and batch.limit is None:
        return [Answer(message.id) for message in messages], messages
    keys = StreamKeys(transaction, batch.stream, log.stream, wanted)
    room = UNLIMITED if batch.limit is None else room_for(transaction, log, batch.limit)
    decided = accept_events(keys, messages, room)
    keys.write()
    return decided


def _write(transaction: Transaction, batch: Batch, log: LogTable, accepted: list[Message]) -> LogTable:
    now_us = transaction.now_us
    now = [message for message in accepted if due_us_of(message, now_us) <= now_us]
    if len(now) < len(accepted):
        later = [message for message in accepted if due_us_of(message, now_us) > now_us]
        _write_beside(transaction, batch, log.stream, later)
    return write(transaction, batch.stream, log, now) if now else log


def _write_beside(transaction: Transaction, batch: Batch, stream: int, later: list[Message]) -> None:
    """Write events that are due later as messages of the topic's stream."""
    bodies = BulkBinding()
    rows = [
        (*event_columns_of(message, transaction.now_us), *bodies.put(message.body), 0) for message in later
    ]
    before_us = transaction.next_due_us([stream])
    bindings = (stream, listed(rows), bodies.content(), transaction.now_us, new_number())
    # An id that already waits there is the same event, sent again.
    written = transaction.connection.change(message_statements.ADD_MESSAGES, bindings)
    transaction.announce_if_due_sooner(batch.stream, before_us, min(at_us for _, _, _, at_us, *_ in rows))
    transaction.count(stream, SCHEDULED, written)
