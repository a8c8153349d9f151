"""Writes, lists and deletes the rows with which workers announce themselves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.limits.paused_tasks import paused_tasks
from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlState
from headrace.core.records.record import WORKER_TTL_US, WorkerInfo
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import upkeep_statements
from headrace.stores.sql.limits.budgets import figures_of
from headrace.stores.sql.rows.upkeep_rows import readable_workers

_encode = msgspec.msgpack.Encoder().encode


def beat_values(
    namespace: str, worker: WorkerInfo, streams: Sequence[Stream], offset_us: int
) -> list[object]:
    """The values of `upkeep_statements.BEAT`."""
    kinds, names = [stream.kind for stream in streams], [stream.name for stream in streams]
    return [namespace, worker.consumer, offset_us, _encode(worker), kinds, names]


def control_state(rows: Sequence[Row]) -> ControlState:
    """The answer of `upkeep_statements.BEAT`: leases of the worker's streams, paused streams, limits of
    paused tasks, and without a kind the store to which everything was moved."""
    others = [(kind, text) for kind, text, lease_us in rows if lease_us is None]
    return ControlState(
        paused=frozenset(Stream(kind, name) for kind, name in others if kind not in ("", "limit")),
        leases={Stream(kind, name): lease_us for kind, name, lease_us in rows if lease_us is not None},
        moved_to=next((target for kind, target in others if not kind), ""),
        paused_tasks=paused_tasks(figures_of(stored) for kind, stored in others if kind == "limit"),
    )


async def forget(transaction: PostgresTransaction, worker: WorkerInfo) -> None:
    await transaction.change(upkeep_statements.FORGET_WORKER, (transaction.namespace, worker.consumer))


async def list_workers(connection: PostgresConnection, namespace: str, offset_us: int) -> list[WorkerInfo]:
    rows = await connection.rows(upkeep_statements.LIST_WORKERS, (namespace, WORKER_TTL_US, offset_us))
    return list(readable_workers(info for (info,) in rows))
