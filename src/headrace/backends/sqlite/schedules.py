"""Schedules: their rows, and the step that fires one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.core.message import Batch, Message, Stream
from headrace.core.orders import ScheduleOrder
from headrace.core.scheduling import ScheduleRecord

from .appends import append
from .connection import Connection
from .parcel import listed
from .publishing import publish
from .transaction import Transaction

_COLUMNS: Final = (
    "kind, streams.name, schedules.name, last_us, fired_us, schedules.paused, definition, timing"
)

# [[kind, name], ...]
LIST: Final = f"""
SELECT {_COLUMNS} FROM json_each(?2) AS wanted CROSS JOIN headrace_streams AS streams
    CROSS JOIN headrace_schedules AS schedules
WHERE namespace = ?1 AND kind = wanted.value ->> 0 AND streams.name = wanted.value ->> 1
    AND schedules.stream = streams.stream
ORDER BY wanted.key, schedules.name
"""

FIND: Final = f"""
SELECT {_COLUMNS} FROM headrace_streams AS streams CROSS JOIN headrace_schedules AS schedules
WHERE namespace = ? AND kind = ? AND streams.name = ? AND schedules.stream = streams.stream
    AND schedules.name = ?
"""

ADD: Final = """
INSERT INTO headrace_schedules (stream, name, last_us, definition) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

PAUSE: Final = """
UPDATE headrace_schedules SET paused = ?3, last_us = iif(paused AND NOT ?3, ?4, last_us)
WHERE stream = ?1 AND name = ?2
"""

REMOVE: Final = "DELETE FROM headrace_schedules WHERE stream = ? AND name = ?"

ADVANCE: Final = """
UPDATE headrace_schedules SET last_us = ?3, fired_us = ?4, timing = coalesce(?5, timing)
WHERE stream = ?1 AND name = ?2
"""


def read(connection: Connection, namespace: str, streams: Sequence[Stream]) -> tuple[ScheduleRecord, ...]:
    return tuple(_record(*row) for row in connection.rows(LIST, (namespace, listed(streams))))


def find(connection: Connection, namespace: str, stream: Stream, name: str) -> ScheduleRecord | None:
    row = connection.row(FIND, (namespace, stream.kind, stream.name, name))
    return _record(*row) if row else None


def establish(transaction: Transaction, stream: Stream, names: Sequence[str]) -> None:
    number = transaction.stream(stream).number
    for name in names:
        transaction.connection.change(ADD, (number, name, transaction.now_us, None))


def add(transaction: Transaction, stream: Stream, name: str, definition: bytes) -> ScheduleRecord:
    number = transaction.stream(stream).number
    if transaction.connection.change(ADD, (number, name, transaction.now_us, definition)):
        transaction.announce(ScheduleOrder(stream))
    record = find(transaction.connection, transaction.namespace, stream, name)
    assert record is not None
    return record


def pause(transaction: Transaction, stream: Stream, name: str, *, paused: bool) -> bool:
    found = transaction.find(stream)
    if found is None:
        return False
    transaction.announce(ScheduleOrder(stream))
    row = (found.number, name, int(paused), transaction.now_us)
    return transaction.connection.change(PAUSE, row) > 0


def remove(transaction: Transaction, stream: Stream, name: str) -> bool:
    found = transaction.find(stream)
    if found is None:
        return False
    transaction.announce(ScheduleOrder(stream))
    return transaction.connection.change(REMOVE, (found.number, name)) > 0


def may_tick(record: ScheduleRecord | None, expected_us: int, next_us: int, now_us: int) -> bool:
    return record is not None and not record.paused and record.last_us == expected_us and next_us <= now_us


def tick(
    transaction: Transaction,
    stream: Stream,
    name: str,
    *,
    expected_us: int,
    next_us: int,
    messages: Sequence[Message],
    timing: str | None,
) -> bool:
    record = find(transaction.connection, transaction.namespace, stream, name)
    if record is None or not may_tick(record, expected_us, next_us, transaction.now_us):
        return False
    number = transaction.stream(stream).number
    fired_us = next_us if messages else record.fired_us
    transaction.connection.change(ADVANCE, (number, name, next_us, fired_us, timing))
    add = publish if stream.kind == "topic" else append
    add(transaction, Batch(stream, f"schedule:{name}", next_us, list(messages)), ticking=True)
    return True


def _record(
    kind: str,
    queue: str,
    name: str,
    last_us: int,
    fired_us: int,
    paused: int,
    definition: bytes | None,
    timing: str,
) -> ScheduleRecord:
    stream = Stream("topic" if kind == "topic" else "queue", queue)
    return ScheduleRecord(stream, name, last_us, fired_us, bool(paused), definition, timing)
