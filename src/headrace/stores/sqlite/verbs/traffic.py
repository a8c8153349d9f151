"""Counts done, failed and dead messages by the minute, for the last two hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.core.records.traffic import KEPT_MINUTES, MINUTE, TrafficCount, TrafficRecord
from headrace.stores.sql.rows.upkeep_rows import traffic_records
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.threads.transaction import Transaction

_ADD: Final = """
INSERT INTO headrace_traffic (namespace, minute, kind, name, done, failed, dead) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    done = done + excluded.done, failed = failed + excluded.failed, dead = dead + excluded.dead
"""

_FORGET: Final = "DELETE FROM headrace_traffic WHERE namespace = ? AND minute <= ?"

_READ: Final = """
SELECT kind, name, minute, done, failed, dead FROM headrace_traffic WHERE namespace = ? AND minute > ?
"""


def count_traffic(transaction: Transaction, tallies: Sequence[TrafficCount]) -> None:
    connection, namespace = transaction.connection, transaction.namespace
    minute = transaction.now_us // MINUTE
    for each in tallies:
        counts = (each.done, each.failed, each.dead)
        connection.change(_ADD, (namespace, minute, each.stream.kind, each.stream.name, *counts))
    connection.change(_FORGET, (namespace, minute - KEPT_MINUTES))


def traffic(connection: Connection, namespace: str, minutes: int, now_us: int) -> list[TrafficRecord]:
    first = now_us // MINUTE - minutes + 1
    return traffic_records(connection.rows(_READ, (namespace, first - 1)), first, minutes)
