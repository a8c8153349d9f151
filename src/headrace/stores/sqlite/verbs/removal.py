"""Removes a stream from the file: a group with all its messages, a queue or topic only when it is empty."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.stores.sqlite.rows.lanes import SUCCEEDED
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics import groups

IS_IN_USE: Final = f"""
SELECT EXISTS (SELECT 1 FROM headrace_messages WHERE stream = ?1 AND place < {SUCCEEDED})
    OR EXISTS (SELECT 1 FROM headrace_events WHERE stream = ?1)
    OR EXISTS (SELECT 1 FROM headrace_groups WHERE topic = ?1 AND NOT removed)
    OR EXISTS (SELECT 1 FROM headrace_schedules WHERE stream = ?1)
"""  # nosec B608 # constants only

#: Deletes the rows that an unused stream may leave behind, the stream itself last.
FORGET: Final = (
    "DELETE FROM headrace_producers WHERE stream = ?",
    "DELETE FROM headrace_unique_keys WHERE stream = ?",
    "DELETE FROM headrace_messages WHERE stream = ?",
    "DELETE FROM headrace_groups WHERE topic = ?",
    "DELETE FROM headrace_topics WHERE stream = ?",
    "DELETE FROM headrace_streams WHERE stream = ?",
)


def remove_stream(transaction: Transaction, stream: Stream) -> bool:
    connection = transaction.connection
    if groups.find_group(connection, transaction.namespace, stream) is not None:
        return groups.remove(transaction, stream)
    found = transaction.find(stream)
    if found is None or connection.value(IS_IN_USE, (found.number,)):
        return False
    for statement in FORGET:
        connection.change(statement, (found.number,))
    return stream.kind != "group" and bool(found.established)
