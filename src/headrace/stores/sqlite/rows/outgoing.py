"""Writes what settlements forward into the outboxes of their streams."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.messages.outgoing import Outgoing, encode_outgoing
from headrace.stores.sqlite.statements import outbox_statements
from headrace.stores.sqlite.threads.transaction import Transaction


def write_outgoing(transaction: Transaction, forwards: Iterable[tuple[int, tuple[Outgoing, ...]]]) -> None:
    """Write outgoing messages, each with the number of the stream whose outbox takes them."""
    for stream, outgoing in forwards:
        for each in outgoing:
            row = (stream, transaction.now_us, encode_outgoing(each))
            transaction.connection.change(outbox_statements.ADD, row)
