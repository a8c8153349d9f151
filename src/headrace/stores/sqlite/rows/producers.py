"""Keeps the answers to each producer's last batch, in case the producer sends the batch again."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import PRODUCER_TTL_US, Batch
from headrace.core.records.answers import Answer
from headrace.core.rules.producers import refuse_if_overtaken
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.threads.transaction import Transaction

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Answer]).decode


def recall(transaction: Transaction, stream: int, batch: Batch) -> list[Answer] | None:
    """The earlier answers to this batch; None: the batch is new."""
    last = transaction.connection.row(message_statements.READ_PRODUCER, (stream, batch.producer))
    if last is None:
        return None
    number, at_us, answers = last
    if at_us + PRODUCER_TTL_US <= transaction.now_us:
        return None
    refuse_if_overtaken(batch, number)
    if number != batch.number:
        return None
    return [Answer(message.id) for message in batch.messages] if answers is None else _decode(answers)


def remember(
    transaction: Transaction, stream: int, batch: Batch, answers: list[Answer], *, complete: bool
) -> None:
    stored = None if complete else _encode(answers)
    row = (stream, batch.producer, batch.number, transaction.now_us, stored)
    transaction.connection.change(message_statements.WRITE_PRODUCER, row)
