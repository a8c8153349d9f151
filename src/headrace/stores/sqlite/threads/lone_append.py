"""Appends one plain message, as most calls do: the work of `verbs.append.append` in fewer statements."""

from __future__ import annotations

from headrace.core.messages.message import Batch
from headrace.core.records.answers import Answer
from headrace.stores.sqlite.rows.lanes import FIRST_PRIORITY, lane_for
from headrace.stores.sqlite.rows.producers import remember
from headrace.stores.sqlite.statements import message_statements

from .transaction import Transaction, new_number


def append_lone(transaction: Transaction, batch: Batch) -> list[Answer] | None:
    """None: nothing was written, and `append` must decide about this batch."""
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
    transaction.news.ready.add(batch.stream)
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
