"""Counts done, failed and dead messages by the minute, for the last two hours."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.records.traffic import KEPT_MINUTES, MINUTE, TrafficCount, TrafficRecord
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import upkeep_statements
from headrace.stores.sql.rows.upkeep_rows import traffic_records


async def count_traffic(transaction: PostgresTransaction, tallies: Sequence[TrafficCount]) -> None:
    namespace, minute = transaction.namespace, transaction.now_us // MINUTE
    rows = [(each.stream.kind, each.stream.name, each.done, each.failed, each.dead) for each in tallies]
    if rows:
        await transaction.change(upkeep_statements.ADD_TRAFFIC, (namespace, minute, *columns(rows)))
    await transaction.change(upkeep_statements.FORGET_TRAFFIC, (namespace, minute - KEPT_MINUTES))


async def traffic(
    connection: PostgresConnection, namespace: str, minutes: int, now_us: int
) -> list[TrafficRecord]:
    first = now_us // MINUTE - minutes + 1
    rows = await connection.rows(upkeep_statements.READ_TRAFFIC, (namespace, first - 1))
    return traffic_records(rows, first, minutes)
