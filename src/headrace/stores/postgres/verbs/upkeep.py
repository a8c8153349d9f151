"""The periodic duties: reclaim expired leases, promote due messages, delete what has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.core.messages.message import PRODUCER_TTL_US, Stream
from headrace.core.records.answers import Promoted, Reclaimed, Recovery
from headrace.core.records.record import WORKER_TTL_US
from headrace.core.rules.lease import Lease
from headrace.core.store import CRASH_LIMIT
from headrace.stores.postgres.limits.entering import enter, number_staged
from headrace.stores.postgres.limits.lines import PostgresLines, next_timer_us
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.rows.written_changes import write_changes
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction, resolve
from headrace.stores.postgres.statements import (
    history_statements,
    limit_statements,
    message_statements,
    stream_statements,
    upkeep_statements,
)
from headrace.stores.postgres.topics.key_order import lock_groups
from headrace.stores.postgres.topics.log import lock_log, open_log, write_due
from headrace.stores.sql.change_set import ChangedMessage, ChangeSet
from headrace.stores.sql.lanes import FIRST_PRIORITY, RUNNING
from headrace.stores.sql.recovering import recover

# --- leases -----------------------------------------------------------------------------------------------


class LeaseScan(NamedTuple):
    """What one look at the leases of streams finds. `until_us`: the time of the youngest lease of a stream
    that has run out. `future`: a lease is from the future, because the clock was set back."""

    now_us: int
    streams: dict[int, Stream]
    until_us: dict[int, int]
    future: bool
    overdue: bool
    held_lines: bool = False


async def scan(
    connection: PostgresConnection | PostgresTransaction,
    namespace: str,
    streams: Sequence[Stream],
    offset_us: int,
) -> LeaseScan:
    kinds, names = [stream.kind for stream in streams], [stream.name for stream in streams]
    rows = await connection.rows(message_statements.FIND_OVERDUE, (namespace, kinds, names, offset_us))
    if not rows:
        [(now_us,)] = await connection.rows(stream_statements.NOW, (offset_us,))
        return LeaseScan(now_us, {}, {}, False, False)
    found, until, future, overdue = {}, {}, False, False
    held_lines = any([row[-1] for row in rows])
    now_us = rows[0][5]
    for position, number, us, longer_us, longer_until_us, _, oldest_us, newest_us, started_us, _ in rows:
        lease_us = Lease.stored(us, longer_us, longer_until_us).at(now_us)
        found[number] = streams[position - 1]
        # After a restart of the server no lease has run out before workers could renew it. (When the clock
        # was set back, the start may seem to be in the future.)
        restarted = now_us - lease_us < started_us <= now_us
        until[number] = 0 if restarted else now_us - lease_us
        overdue = overdue or (oldest_us is not None and oldest_us <= until[number])
        future = future or (newest_us is not None and newest_us > now_us)
    return LeaseScan(now_us, found, until, future, overdue, held_lines)


async def restart_leases(transaction: PostgresTransaction, streams: Sequence[Stream]) -> None:
    """Reclaim nothing for the time of one lease from now, whatever the clock was before."""
    for resolved in await resolve(transaction, transaction.namespace, streams):
        lease = resolved.lease.restarted(transaction.now_us)
        row = (resolved.number, lease.us, lease.longer_us, lease.longer_until_us)
        await transaction.change(stream_statements.WRITE_LEASE, row)


async def reclaim(
    transaction: PostgresTransaction,
    streams: Sequence[Stream],
    limit: int,
    offset_us: int,
    crash_limits: Mapping[Stream, int],
) -> Reclaimed:
    found = await scan(transaction, transaction.namespace, streams, offset_us)
    if found.held_lines:
        await transaction.lock_lines()
    groups = [number for number, stream in found.streams.items() if stream.kind == "group"]
    await lock_groups(transaction, groups)
    if found.future:
        # If the clock was set back: a lease must not last longer than its full length from now.
        await transaction.change(message_statements.SHORTEN_LEASES, (list(found.streams), found.now_us))
    if not found.until_us:
        return Reclaimed()
    values = (list(found.until_us), list(found.until_us.values()), limit)
    rows = await transaction.rows(message_statements.LOCK_OVERDUE, values)
    changes = ChangeSet(transaction)
    recovered: list[Recovery | None] = []
    for number, id, task, priority, cancel_us, key, worker, state, awaited, *line, log in rows:
        constraints, child, order_key = line
        subject = ChangedMessage(
            *(found.streams[number], number, id, RUNNING, priority, 0, cancel_us, key),
            awaited=awaited,
            constraints=constraints,
            child=child,
            order_key=order_key,
        )
        most = crash_limits.get(found.streams[number], CRASH_LIMIT)
        recovered.append(
            recover(changes, subject, task, worker=worker or "", state=state, log=log, crash_limit=most)
        )
    await write_changes(transaction, changes)
    return Reclaimed(tuple(filter(None, recovered)), more=len(rows) == limit)


# --- due times --------------------------------------------------------------------------------------------


class DueScan(NamedTuple):
    """The time, and when the next message of these streams is due, or tokens are looked for. `lined`: the
    numbers of streams that held lines."""

    now_us: int
    numbers: dict[int, Stream]
    due_us: int | None
    lined: frozenset[int] = frozenset()

    @property
    def is_something_due(self) -> bool:
        return self.due_us is not None and self.due_us <= self.now_us

    def promoted(self, count: int) -> Promoted:
        return Promoted(count, None if self.due_us is None else max(self.due_us - self.now_us, 0))


async def next_due(
    connection: PostgresConnection | PostgresTransaction,
    namespace: str,
    streams: Sequence[Stream],
    offset_us: int,
) -> DueScan:
    kinds, names = [stream.kind for stream in streams], [stream.name for stream in streams]
    values = (namespace, kinds, names, offset_us)
    rows = await connection.rows(message_statements.FIND_DUE_STREAMS, values)
    times = [due_us for _, _, _, due_us, _ in rows if due_us is not None]
    numbers = {number: streams[position - 1] for position, number, *_ in rows}
    now_us = rows[0][2] if rows else 0
    lined = frozenset(number for _, number, _, _, held_lines in rows if held_lines)
    if lined and (timer_us := await next_timer_us(connection, namespace, now_us)) is not None:
        times.append(timer_us)
    return DueScan(now_us, numbers, min(times, default=None), lined)


async def promote(
    transaction: PostgresTransaction, streams: Sequence[Stream], limit: int, offset_us: int
) -> Promoted:
    found = await next_due(transaction, transaction.namespace, streams, offset_us)
    if found.lined:
        await transaction.lock_lines()
    for topic in sorted(stream.name for stream in found.numbers.values() if stream.kind == "topic"):
        await lock_log(transaction, topic)
    values = (list(found.numbers), transaction.now_us, limit)
    due = await transaction.rows(message_statements.LOCK_DUE, values)
    found = await _with_late_lines(transaction, found, due)
    await _write_to_logs(transaction, found, due)
    queued = [(number, id) for number, id, *_ in due if found.numbers[number].kind != "topic"]
    limited = {number: [id for stream, id in queued if stream == number] for number in found.lined}
    for number, ids in limited.items():
        await number_staged(transaction, number, ids)
    if queued:
        await transaction.change(message_statements.PROMOTE, (*columns(queued), transaction.now_us))
    for number, _, place, _ in due:
        stream = found.numbers[number]
        if stream.kind != "topic":
            transaction.count(number, place, -1)
            transaction.count(number, FIRST_PRIORITY, 1)
            transaction.ready.add(stream)
    for number, ids in limited.items():
        await enter(transaction, number, ids)
    if found.lined:
        await PostgresLines(transaction).look()
    after = await next_due(transaction, transaction.namespace, streams, offset_us)
    return after.promoted(len(due))


async def _with_late_lines(
    transaction: PostgresTransaction, found: DueScan, due: list[tuple[int, str, int, bool]]
) -> DueScan:
    """The first messages with constraints may have come in the meantime, and a damaged row may have some."""
    late = {number for number, _, _, limited in due if limited} - found.lined
    if late:
        await transaction.lock_lines()
    for number in late:
        await transaction.change(limit_statements.NOTE_LINES, (number,))
    return found._replace(lined=found.lined | late)


async def _write_to_logs(
    transaction: PostgresTransaction, found: DueScan, due: list[tuple[int, str, int, bool]]
) -> None:
    """Write due events to the logs of their topics."""
    for number, topic in found.numbers.items():
        ids = [id for each, id, *_ in due if each == number]
        if ids and topic.kind == "topic":
            log = await open_log(transaction, topic.topic, draining=True)
            await write_due(transaction, topic, log, ids)


# --- forgetting -------------------------------------------------------------------------------------------


async def is_something_past(connection: PostgresConnection, namespace: str, offset_us: int) -> bool:
    [(now_us,)] = await connection.rows(stream_statements.NOW, (offset_us,))
    values = (namespace, now_us, now_us - PRODUCER_TTL_US, now_us - WORKER_TTL_US)
    [(past,)] = await connection.rows(upkeep_statements.IS_SOMETHING_PAST, values)
    return bool(past)


async def prune(transaction: PostgresTransaction, limit: int) -> int:
    namespace, now_us = transaction.namespace, transaction.now_us
    pruned = 0
    if await transaction.value(limit_statements.IS_A_BUDGET_IDLE, (namespace, now_us)):
        await transaction.lock_lines()
        pruned += await transaction.change(limit_statements.PRUNE_BUDGETS, (namespace, now_us, limit))
    steps = (
        (upkeep_statements.PRUNE_END_RECORDS, now_us),
        (upkeep_statements.PRUNE_KEYS, now_us),
        (history_statements.PRUNE, now_us),
        (upkeep_statements.PRUNE_PRODUCERS, now_us - PRODUCER_TTL_US),
        (upkeep_statements.PRUNE_WORKERS, now_us - WORKER_TTL_US),
    )
    for statement, until_us in steps:
        pruned += await transaction.change(statement, (namespace, until_us, limit - pruned))
    pruned += await transaction.change(upkeep_statements.PRUNE_PROGRESS, (namespace, limit - pruned))
    await transaction.rows(upkeep_statements.ADD_UP_COUNTS, (namespace, limit))
    return pruned
