"""Writes entries of the history."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.history.entry import HistoryEntry
from headrace.stores.sqlite.statements import history_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed
from headrace.stores.sqlite.threads.transaction import Transaction


def write_history(transaction: Transaction, entries: Iterable[tuple[int, HistoryEntry]]) -> None:
    """Write entries, each with the number of its stream. An entry replaces the one with its id."""
    contents = BulkBinding()
    rows = [
        (
            *(stream, entry.id, entry.ended_us, entry.task, entry.status),
            *(entry.until_us or None, entry.size, *contents.put(entry.content)),
        )
        for stream, entry in entries
    ]
    if rows:
        transaction.connection.change(history_statements.WRITE, (listed(rows), contents.content()))
