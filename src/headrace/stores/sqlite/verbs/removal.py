"""Removes a stream from the file: a group with all its messages, a queue or topic only when it is empty."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.stores.sql.lanes import SUCCEEDED
from headrace.stores.sqlite.statements import history_statements, limit_statements, topic_statements
from headrace.stores.sqlite.statements.bulk_binding import unlisted
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.groups import find_group

IS_IN_USE: Final = f"""
SELECT EXISTS (SELECT 1 FROM headrace_messages WHERE stream = ?1 AND place < {SUCCEEDED})
    OR EXISTS (SELECT 1 FROM headrace_events WHERE stream = ?1)
    OR EXISTS (SELECT 1 FROM headrace_groups WHERE topic = ?1 AND NOT removed)
    OR EXISTS (SELECT 1 FROM headrace_schedules WHERE stream = ?1)
    OR EXISTS (SELECT 1 FROM headrace_outgoing WHERE stream = ?1)
"""  # nosec B608 # constants only

#: Deletes the rows that an unused stream may leave behind, the stream itself last.
FORGET: Final = (
    "DELETE FROM headrace_producers WHERE stream = ?",
    "DELETE FROM headrace_unique_keys WHERE stream = ?",
    "DELETE FROM headrace_messages WHERE stream = ?",
    "DELETE FROM headrace_groups WHERE topic = ?",
    "DELETE FROM headrace_topics WHERE stream = ?",
    "DELETE FROM headrace_outboxes WHERE stream = ?",
    *limit_statements.FORGET_LINES,
    *history_statements.FORGET_STREAM,
    "DELETE FROM headrace_streams WHERE stream = ?",
)


#: Deletes what a group has drawn, and clears its lease, its pause and its counts, as in a new stream.
FORGET_GROUP: Final = (
    "DELETE FROM headrace_messages WHERE stream = ?",
    "DELETE FROM headrace_unique_keys WHERE stream = ?",
    topic_statements.FORGET_DEFERRED,
    """
    UPDATE headrace_streams SET
        established = 0, lease_us = NULL, longer_lease_us = 0, longer_until_us = 0, paused = 0,
        queued = 0, running = 0, scheduled = 0, retrying = 0, dead = 0, parked = 0
    WHERE stream = ?
    """,
    "UPDATE headrace_groups SET removed = 1 WHERE stream = ?",
)


def remove_stream(transaction: Transaction, stream: Stream) -> bool:
    connection = transaction.connection
    group = find_group(connection, transaction.namespace, stream)
    if group is not None:
        return not group.removed and _remove_group(transaction, stream, group.stream)
    found = transaction.find(stream)
    if found is None or connection.value(IS_IN_USE, (found.number,)):
        return False
    for statement in FORGET:
        connection.change(statement, (found.number,))
    return stream.kind != "group" and bool(found.established)


def _remove_group(transaction: Transaction, group: Stream, number: int) -> bool:
    """Remove a group with its messages. Its row stays, so that only `join` makes the group again."""
    connection = transaction.connection
    if transaction.waited_for:
        ids = unlisted(connection.value(topic_statements.LIST_IDS, (number,)))
        transaction.ended.update((group, id) for id in ids)
    for statement in FORGET_GROUP:
        connection.change(statement, (number,))
    transaction.forget_counts(number)
    return True
