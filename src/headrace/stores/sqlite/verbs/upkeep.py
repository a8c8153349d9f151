"""The periodic duties: reclaim expired leases, promote due messages, delete what has passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headrace.core.messages.message import PRODUCER_TTL_US, Stream
from headrace.core.records.answers import Promoted, Reclaimed, Recovery
from headrace.core.records.record import WORKER_TTL_US
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CRASH_LIMIT
from headrace.stores.sql.change_set import ChangedMessage, ChangeSet
from headrace.stores.sql.lanes import (
    FIRST_PRIORITY,
    RETRYING,
    RUNNING,
    SCHEDULED,
)
from headrace.stores.sql.recovering import recover
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.limits.entering import enter
from headrace.stores.sqlite.limits.lines import LineTable, due_timer, next_timer_us
from headrace.stores.sqlite.rows.written_changes import write_changes
from headrace.stores.sqlite.statements import history_statements, upkeep_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkRows, listed, unlisted
from headrace.stores.sqlite.threads.transaction import OpenStream, Transaction, resolve
from headrace.stores.sqlite.topics.log import write_due

#: The due time, the number of the message, the row of its stream, its place; then its constraints, its place
#: after that, its order key and its id.
Due = tuple[int, int, OpenStream, int, list[Any]]

#: How long the file keeps the name of a worker that has stopped. It may still hold messages.
NAME_TTL: Final = 86_400 * SECOND


# --- leases -----------------------------------------------------------------------------------------------


def is_something_overdue(
    connection: Connection, namespace: str, streams: Sequence[Stream], now_us: int
) -> bool:
    rows = resolve(connection, namespace, streams)
    return bool(connection.value(upkeep_statements.IS_SOMETHING_OVERDUE, (_overdue(rows, now_us), now_us)))


def restart_leases(transaction: Transaction, streams: Sequence[Stream]) -> None:
    """Reclaim nothing for the time of one lease from now, whatever the clock was before."""
    now_us = transaction.now_us
    for row in resolve(transaction.connection, transaction.namespace, streams):
        transaction.write_lease(row.number, row.lease.restarted(now_us))


def reclaim(
    transaction: Transaction, streams: Sequence[Stream], limit: int, crash_limits: Mapping[Stream, int]
) -> Reclaimed:
    connection, now_us = transaction.connection, transaction.now_us
    rows_by_number = {row.number: row for row in resolve(connection, transaction.namespace, streams)}
    # If the clock was set back: a lease must not last longer than its full length from now.
    connection.change(upkeep_statements.SHORTEN_LEASES, (listed(rows_by_number), now_us))
    rows, states, logs = connection.row(
        upkeep_statements.READ_OVERDUE, (_overdue(rows_by_number.values(), now_us), limit)
    )
    unpack_state, unpack_log = BulkRows(states), BulkRows(logs)
    changes = ChangeSet(transaction)
    found = unlisted(rows)
    recovered: list[Recovery | None] = []
    for seq, number, id, task, priority, cancel_us, key, worker, *line, length, log_length in found:
        stream = rows_by_number[number].stream
        constraints, child, order_key = line
        subject = ChangedMessage(
            *(stream, number, id, RUNNING, priority, 0, cancel_us, key, seq),
            constraints=constraints,
            child=bool(child),
            order_key=order_key,
        )
        state, log = unpack_state.take(length), unpack_log.take(log_length)
        most = crash_limits.get(stream, CRASH_LIMIT)
        recovered.append(
            recover(changes, subject, task, worker=worker or "", state=state, log=log, crash_limit=most)
        )
    write_changes(transaction, changes)
    return Reclaimed(tuple(filter(None, recovered)), more=len(found) == limit)


def reclaimed(answers: Sequence[Reclaimed], stepped_us: int) -> Reclaimed:
    """One answer from the answers of several steps."""
    recovered = tuple(each for answer in answers for each in answer.recovered)
    return Reclaimed(recovered, any(answer.more for answer in answers), stepped_us=stepped_us)


def _overdue(rows: Iterable[OpenStream], now_us: int) -> str:
    return listed((row.number, now_us - row.lease.at(now_us)) for row in rows)


# --- due times --------------------------------------------------------------------------------------------


def next_due(connection: Connection, namespace: str, streams: Sequence[Stream], now_us: int) -> int | None:
    """When the next scheduled or retrying message is due, or tokens are looked for."""
    rows = resolve(connection, namespace, streams)
    numbers = [row.number for row in rows]
    due_us: int | None = connection.value(upkeep_statements.NEXT_DUE, (listed(numbers),))
    if not any(row.held_lines for row in rows):
        return due_us
    timer_us = now_us if due_timer(connection, namespace, now_us) else next_timer_us(connection, namespace)
    return min((time for time in (due_us, timer_us) if time is not None), default=None)


def promoted(count: int, due_us: int | None, now_us: int) -> Promoted:
    return Promoted(count, None if due_us is None else max(due_us - now_us, 0))


def all_promoted(answers: Sequence[Promoted]) -> Promoted:
    """One answer from the answers of several steps."""
    waits = [answer.next_in_us for answer in answers if answer.next_in_us is not None]
    return Promoted(sum(answer.count for answer in answers), min(waits, default=None))


def promote(transaction: Transaction, streams: Sequence[Stream], limit: int) -> Promoted:
    connection, now_us = transaction.connection, transaction.now_us
    due: list[Due] = []
    rows = resolve(connection, transaction.namespace, streams)
    for row in rows:
        for place in (SCHEDULED, RETRYING):
            found = connection.value(upkeep_statements.FIND_DUE, (row.number, place, now_us, limit))
            due += [(at_us, seq, row, place, more) for at_us, seq, *more in unlisted(found)]
    due = sorted(due, key=lambda each: each[:2])[:limit]
    _write_to_logs(transaction, due)
    queued = [each for each in due if each[2].stream.kind != "topic"]
    if queued:
        connection.change(upkeep_statements.PROMOTE, (listed(seq for _, seq, *_ in queued), now_us))
    for _, _, row, place, _ in queued:
        transaction.count(row.number, place, -1)
        transaction.count(row.number, FIRST_PRIORITY, 1)
        transaction.ready.add(row.stream)
    for row in dict.fromkeys(row for _, _, row, _, _ in queued):
        enter(transaction, row.number, [(seq, *more) for _, seq, of, _, more in queued if of is row])
    if any(row.held_lines for row in rows):
        LineTable(transaction).look()
    return promoted(len(due), next_due(connection, transaction.namespace, streams, now_us), now_us)


def _write_to_logs(transaction: Transaction, due: list[Due]) -> None:
    """Write due events to the logs of their topics."""
    for topic in dict.fromkeys(row.stream for _, _, row, *_ in due):
        if topic.kind == "topic":
            seqs = [seq for _, seq, row, *_ in due if row.stream == topic]
            write_due(transaction, topic, seqs)


# --- forgetting -------------------------------------------------------------------------------------------


def is_something_past(connection: Connection, namespace: str, now_us: int) -> bool:
    times = (now_us, now_us - PRODUCER_TTL_US, now_us - WORKER_TTL_US)
    return bool(connection.value(upkeep_statements.IS_SOMETHING_PAST, (namespace, *times)))


def prune(transaction: Transaction, limit: int) -> int:
    connection, namespace, now_us = transaction.connection, transaction.namespace, transaction.now_us
    steps = (
        (upkeep_statements.PRUNE_END_RECORDS, now_us),
        (upkeep_statements.PRUNE_KEYS, now_us),
        (upkeep_statements.PRUNE_PRODUCERS, now_us - PRODUCER_TTL_US),
        (upkeep_statements.PRUNE_WORKERS, now_us - WORKER_TTL_US),
        (upkeep_statements.PRUNE_BUDGETS, now_us),
        (history_statements.PRUNE, now_us),
    )
    pruned = 0
    for statement, until_us in steps:
        pruned += connection.change(statement, (namespace, until_us, limit - pruned))
    pruned += connection.change(upkeep_statements.PRUNE_PROGRESS, (limit - pruned,))
    connection.change(upkeep_statements.PRUNE_WORKER_NAMES, (namespace, now_us - NAME_TTL))
    return pruned
