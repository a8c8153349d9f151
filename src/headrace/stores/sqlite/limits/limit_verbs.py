"""The verbs of the store that concern limits."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting
from headrace.stores.sql.limits.budgets import figures_of, stored_figures
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.statements import limit_statements
from headrace.stores.sqlite.threads.store_threads import StoreThreads
from headrace.stores.sqlite.threads.transaction import Transaction

from .lines import LineTable


class SqliteLimits(StoreThreads, Limiting):
    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        return await self._write(lambda transaction: _declare(transaction, limits))

    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        return await self._write(lambda transaction: _override(transaction, name, figures))

    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        return await self._read(_records if counted else _figures)


def _declare(transaction: Transaction, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
    changed: list[LimitFigures] = []
    for figures in limits:
        name = (transaction.namespace, figures.name)
        row = transaction.connection.row(limit_statements.READ_LIMIT, name)
        before = figures_of(row[0]) if row else None
        if before == figures:
            continue
        if before is not None:
            changed.append(before)
        transaction.connection.change(limit_statements.DECLARE_LIMIT, (*name, stored_figures(figures)))
        LineTable(transaction).open_all(figures.name)
    return changed


def _override(transaction: Transaction, name: str, figures: LimitFigures | None) -> bool:
    stored = None if figures is None else stored_figures(figures)
    found = transaction.connection.change(
        limit_statements.OVERRIDE_LIMIT, (transaction.namespace, name, stored)
    )
    LineTable(transaction).open_all(name)
    return found > 0


def _figures(connection: Connection, namespace: str) -> list[LimitRecord]:
    """The limits without what they count."""
    records: list[LimitRecord] = []
    for name, declared, override in connection.rows(limit_statements.LIST_LIMITS, (namespace,)):
        figures = figures_of(override or declared) or LimitFigures(name)
        records.append(LimitRecord(figures, declared=figures_of(declared) if override else None))
    return records


def _records(connection: Connection, namespace: str) -> list[LimitRecord]:
    rows = connection.rows(limit_statements.COUNT_LIMITED, (namespace,))
    counts = {name: (running, waiting, keys) for name, running, waiting, keys in rows}
    return [
        LimitRecord(record.figures, *counts.get(record.figures.name, (0, 0, 0)), record.declared)
        for record in _figures(connection, namespace)
    ]
