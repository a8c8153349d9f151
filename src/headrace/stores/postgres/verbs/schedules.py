"""Reads the rows of schedules, and replaces a schedule in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.control import ScheduleNotice
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    Swapped,
    Timetable,
)
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.steps import PostgresSteps
from headrace.stores.postgres.topics.publish import publish
from headrace.stores.sql.schedules import COLUMNS, SteppedSchedules, record_of

from .append import append

# namespace, kinds, names
LIST: Final = f"""
SELECT {COLUMNS.replace("kind", "streams.kind", 1)}
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS wanted (kind, name, position)
    JOIN headrace.streams AS streams
        ON namespace = $1 AND streams.kind = wanted.kind AND streams.name = wanted.name
    JOIN headrace.schedules AS schedules ON schedules.stream = streams.stream
ORDER BY position, schedules.name
"""  # nosec B608 # constants only

# namespace, kind, name, the schedule's name
FIND: Final = f"""
SELECT {COLUMNS} FROM headrace.streams AS streams
    JOIN headrace.schedules AS schedules ON schedules.stream = streams.stream
WHERE namespace = $1 AND kind = $2 AND streams.name = $3 AND schedules.name = $4
"""  # nosec B608 # constants only

# Only one step at a time may compare and set a schedule, also one that is not there yet.
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('headrace schedule ' || $2::text, $1))"

WRITE: Final = """
INSERT INTO headrace.schedules (stream, name, last_us, fired_us, paused, definition, timing)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (stream, name) DO UPDATE SET last_us = excluded.last_us, fired_us = excluded.fired_us,
    paused = excluded.paused, definition = excluded.definition, timing = excluded.timing
"""

REMOVE: Final = "DELETE FROM headrace.schedules WHERE stream = $1 AND name = $2"


class PostgresSchedules(PostgresSteps, SteppedSchedules):
    """The verbs of the store contract for schedules."""

    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        async def read_all(connection: PostgresConnection, now_us: int) -> Timetable:
            return Timetable(now_us, await read(connection, self._namespace, streams))

        return await self._read_at(read_all)

    async def _swap(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        refused = await self._read_at(
            lambda connection, now_us: refusals(connection, self._namespace, swaps, now_us)
        )
        if refused is not None:
            return refused
        has_keys = any([message.unique is not None for swap in swaps for message in swap.messages])
        return await self._write(lambda transaction: swap_all(transaction, swaps), may_wait=has_keys)


async def read(
    connection: PostgresConnection, namespace: str, streams: Sequence[Stream]
) -> tuple[ScheduleRecord, ...]:
    kinds, names = [stream.kind for stream in streams], [stream.name for stream in streams]
    return tuple(record_of(*row) for row in await connection.rows(LIST, (namespace, kinds, names)))


async def refusals(
    connection: PostgresConnection, namespace: str, swaps: Sequence[ScheduleSwap], now_us: int
) -> list[Swapped] | None:
    """The answers when every swap is refused; None: at least one swap is accepted."""
    answers: list[Swapped] = []
    for swap in swaps:
        stored = await _find(connection, namespace, swap)
        if not swap.is_refused(stored, now_us):
            return None
        answers.append(Swapped(False, stored))
    return answers


async def swap_all(transaction: PostgresTransaction, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
    return [await _swap(transaction, swap) for swap in swaps]


async def _swap(transaction: PostgresTransaction, swap: ScheduleSwap) -> Swapped:
    stored = await _find(transaction, transaction.namespace, swap)
    if swap.is_refused(stored, transaction.now_us):
        return Swapped(False, stored)
    number = await transaction.stream(swap.stream)
    await transaction.rows(LOCK, (number, swap.name))
    stored = await _find(transaction, transaction.namespace, swap)
    if swap.is_refused(stored, transaction.now_us):
        return Swapped(False, stored)
    record = swap.record_at(transaction.now_us)
    if record is None:
        await transaction.change(REMOVE, (number, swap.name))
    else:
        await transaction.change(WRITE, _row(number, record))
        add = publish if swap.stream.kind == "topic" else append
        await add(transaction, swap.batch(record))
    if swap.announce:
        transaction.announce(ScheduleNotice(swap.stream))
    return Swapped(True, record)


async def _find(
    connection: PostgresConnection | PostgresTransaction, namespace: str, swap: ScheduleSwap
) -> ScheduleRecord | None:
    rows = await connection.rows(FIND, (namespace, swap.stream.kind, swap.stream.name, swap.name))
    return record_of(*rows[0]) if rows else None


def _row(stream: int, record: ScheduleRecord) -> Row:
    moments = (record.last_us, record.fired_us)
    return (stream, record.name, *moments, record.paused, record.definition, record.timing)
