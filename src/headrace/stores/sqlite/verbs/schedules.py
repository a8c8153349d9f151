"""The verbs of the store contract for schedules: reads their rows, and replaces a schedule in one step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.control import ScheduleNotice
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    Swapped,
    Timetable,
)
from headrace.stores.sql.schedules import COLUMNS, SteppedSchedules, record_of
from headrace.stores.sqlite.connection.connection import Bindings, Connection
from headrace.stores.sqlite.statements.bulk_binding import listed
from headrace.stores.sqlite.threads.step import NothingToWrite
from headrace.stores.sqlite.threads.store_threads import StoreThreads
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.publish import publish

from .append import append

# [[kind, name], ...]
LIST: Final = f"""
SELECT {COLUMNS} FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams
    CROSS JOIN headrace_schedules AS schedules
WHERE namespace = ?1 AND kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
    AND schedules.stream = streams.stream
ORDER BY wanted.key, schedules.name
"""  # nosec B608 # constants only

FIND: Final = f"""
SELECT {COLUMNS} FROM headrace_streams AS streams CROSS JOIN headrace_schedules AS schedules
WHERE namespace = ? AND kind = ? AND streams.name = ? AND schedules.stream = streams.stream
    AND schedules.name = ?
"""  # nosec B608 # constants only

WRITE: Final = """
INSERT INTO headrace_schedules (stream, name, last_us, fired_us, paused, definition, timing)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET last_us = excluded.last_us, fired_us = excluded.fired_us, paused = excluded.paused,
    definition = excluded.definition, timing = excluded.timing
"""

REMOVE: Final = "DELETE FROM headrace_schedules WHERE stream = ? AND name = ?"


class SqliteSchedules(StoreThreads, SteppedSchedules):
    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        found = await self._read(read, streams)
        return Timetable(self._clock.now_us(), found)

    async def _swap(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        def refused(connection: Connection) -> NothingToWrite[list[Swapped]] | None:
            answers = refusals(connection, self._namespace, swaps, self._clock.now_us())
            return None if answers is None else NothingToWrite(answers)

        weight = sum(max(1, len(swap.messages)) for swap in swaps)
        return await self._write(partial(swap_all, swaps=swaps), shortcut=refused, weight=weight)


def read(connection: Connection, namespace: str, streams: Sequence[Stream]) -> tuple[ScheduleRecord, ...]:
    return tuple(record_of(*row) for row in connection.rows(LIST, (namespace, listed(streams))))


def refusals(
    connection: Connection, namespace: str, swaps: Sequence[ScheduleSwap], now_us: int
) -> list[Swapped] | None:
    """The answers when every swap is refused; None: at least one swap is accepted."""
    answers: list[Swapped] = []
    for swap in swaps:
        stored = _find(connection, namespace, swap)
        if not swap.is_refused(stored, now_us):
            return None
        answers.append(Swapped(False, stored))
    return answers


def swap_all(transaction: Transaction, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
    return [_swap(transaction, swap) for swap in swaps]


def _swap(transaction: Transaction, swap: ScheduleSwap) -> Swapped:
    stored = _find(transaction.connection, transaction.namespace, swap)
    if swap.is_refused(stored, transaction.now_us):
        return Swapped(False, stored)
    record = swap.record_at(transaction.now_us)
    number = transaction.stream(swap.stream).number
    if record is None:
        transaction.connection.change(REMOVE, (number, swap.name))
    else:
        transaction.connection.change(WRITE, _row(number, record))
        add = publish if swap.stream.kind == "topic" else append
        add(transaction, swap.batch(record), ticking=True)
    if swap.announce:
        transaction.announce(ScheduleNotice(swap.stream))
    return Swapped(True, record)


def _find(connection: Connection, namespace: str, swap: ScheduleSwap) -> ScheduleRecord | None:
    row = connection.row(FIND, (namespace, swap.stream.kind, swap.stream.name, swap.name))
    return record_of(*row) if row else None


def _row(stream: int, record: ScheduleRecord) -> Bindings:
    moments = (record.last_us, record.fired_us)
    return (stream, record.name, *moments, int(record.paused), record.definition, record.timing)
