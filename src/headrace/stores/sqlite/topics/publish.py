"""Appends a batch to a topic: recognises a repeated batch and skips events that were published before. Writes
the others to the log, or to the topic's stream when they are due later."""

from __future__ import annotations

from headrace.core.messages.message import NORMAL, Batch, Message
from headrace.core.records.answers import Answer
from headrace.core.topics.topic import TRIMMED_BESIDE
from headrace.stores.sqlite.rows.lanes import FIRST_PRIORITY, SCHEDULED
from headrace.stores.sqlite.rows.producers import recall, remember
from headrace.stores.sqlite.rows.unique_keys import StreamKeys
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed
from headrace.stores.sqlite.threads.transaction import Transaction, new_number
from headrace.stores.sqlite.verbs.append import Row, sealed

from .log import LogTable, open_log, write
from .retention import trim


def publish(transaction: Transaction, batch: Batch, *, ticking: bool = False) -> list[Answer]:
    if not batch.messages:
        return []
    log = open_log(transaction, batch.stream.topic)
    answers = recall(transaction, log.stream, batch)
    if answers is None:
        if log.sealed and not ticking:
            raise sealed(batch)
        answers, accepted = _decide(transaction, log, batch.messages)
        log = _write(transaction, batch, log, accepted)
        remember(transaction, log.stream, batch, answers, complete=len(accepted) == len(answers))
        trim(transaction, log, len(accepted) + TRIMMED_BESIDE)
    return answers


def _decide(
    transaction: Transaction, log: LogTable, messages: list[Message]
) -> tuple[list[Answer], list[Message]]:
    wanted = [message.unique.key for message in messages if message.unique]
    if not wanted:
        return [Answer(message.id) for message in messages], messages
    keys = StreamKeys(transaction, log.stream, wanted)
    answers: list[Answer] = []
    accepted: list[Message] = []
    for message in messages:
        unique = message.unique
        if unique is not None and (owner := keys.owner(unique.key)) is not None:
            answers.append(Answer(owner, "duplicate"))
            continue
        if unique is not None:
            keys.take(unique, message.id)
        accepted.append(message)
        answers.append(Answer(message.id))
    keys.write()
    return answers, accepted


def _write(transaction: Transaction, batch: Batch, log: LogTable, accepted: list[Message]) -> LogTable:
    now = [message for message in accepted if _due_us(message, transaction.now_us) <= transaction.now_us]
    if len(now) < len(accepted):
        later = [message for message in accepted if _due_us(message, transaction.now_us) > transaction.now_us]
        _write_beside(transaction, batch, log.stream, later)
    return write(transaction, batch.stream, log, now) if now else log


def _due_us(message: Message, now_us: int) -> int:
    return max(message.due_us, now_us + message.delay_us)


def _write_beside(transaction: Transaction, batch: Batch, stream: int, later: list[Message]) -> None:
    """Write events as messages of the topic's stream. `unique_key` holds the event's key."""
    bodies = BulkBinding()
    rows = [_row(message, bodies, transaction.now_us) for message in later]
    before_us = transaction.next_due_us([stream])
    bindings = (stream, listed(rows), bodies.content(), transaction.now_us, new_number())
    # An id that already waits there is the same event, sent again.
    written = transaction.connection.change(message_statements.ADD_MESSAGES, bindings)
    transaction.announce_if_due_sooner(batch.stream, before_us, min(at_us for _, _, _, at_us, *_ in rows))
    transaction.count(stream, SCHEDULED, written)


def _row(message: Message, bodies: BulkBinding, now_us: int) -> Row:
    due_us = _due_us(message, now_us)
    expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
    lane, key = FIRST_PRIORITY + NORMAL, message.key or None
    start, length = bodies.put(message.body)
    stored = start, length, 0
    return message.id, message.task, SCHEDULED, due_us, lane, NORMAL, expires_us, key, None, *stored
