"""Writes, lists and deletes the rows with which workers announce themselves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.limits.paused_tasks import paused_tasks
from headrace.core.messages.message import Stream
from headrace.core.moving.seal import shown_target
from headrace.core.records.control import ControlState
from headrace.core.records.record import WORKER_TTL_US, WorkerInfo
from headrace.stores.sql.limits.budgets import figures_of
from headrace.stores.sql.rows.upkeep_rows import readable_workers
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import (
    limit_statements,
    moving_statements,
    stream_statements,
    upkeep_statements,
)
from headrace.stores.sqlite.statements.bulk_binding import listed
from headrace.stores.sqlite.threads.transaction import Transaction

_encode = msgspec.msgpack.Encoder().encode


def beat(transaction: Transaction, worker: WorkerInfo, streams: Sequence[Stream]) -> ControlState:
    connection, namespace = transaction.connection, transaction.namespace
    row = (namespace, worker.consumer, transaction.now_us, _encode(worker))
    connection.change(upkeep_statements.WRITE_WORKER, row)
    leases = connection.rows(stream_statements.LIST_LEASES, (namespace, listed(streams)))
    return ControlState(
        paused=frozenset(
            Stream(*row) for row in connection.rows(stream_statements.LIST_PAUSED, (namespace,))
        ),
        leases={Stream(kind, name): lease_us for kind, name, lease_us in leases},
        moved_to=shown_target(connection.value(moving_statements.READ_SEAL, (namespace,))),
        paused_tasks=paused_tasks(
            figures_of(stored) for (stored,) in connection.rows(limit_statements.LIST_PAUSES, (namespace,))
        ),
    )


def forget(transaction: Transaction, worker: WorkerInfo) -> None:
    transaction.connection.change(upkeep_statements.FORGET_WORKER, (transaction.namespace, worker.consumer))


def list_workers(connection: Connection, namespace: str, now_us: int) -> list[WorkerInfo]:
    rows = connection.rows(upkeep_statements.LIST_WORKERS, (namespace, now_us - WORKER_TTL_US))
    return list(readable_workers(info for (info,) in rows))
