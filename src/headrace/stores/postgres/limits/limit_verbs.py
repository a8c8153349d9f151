"""The verbs of the store that concern limits."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.limiting import Limiting
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import limit_statements
from headrace.stores.postgres.steps import PostgresSteps
from headrace.stores.sql.limits.budgets import figures_of, stored_figures

from .lines import PostgresLines


class PostgresLimits(PostgresSteps, Limiting):
    async def declare_limits(self, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
        stored = await self._read(lambda connection: _declared(connection, self._namespace, limits))
        if all([stored.get(figures.name) == figures for figures in limits]):
            return []  # every worker declares its limits when it starts: most find them declared
        return await self._write(lambda transaction: _declare(transaction, limits))

    async def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        return await self._write(lambda transaction: _override(transaction, name, figures))

    async def limits(self, *, counted: bool = True) -> list[LimitRecord]:
        statement = limit_statements.LIST_LIMITS if counted else limit_statements.LIST_FIGURES
        return await self._read(lambda connection: _records(connection, self._namespace, statement))


async def _declared(
    connection: PostgresConnection | PostgresTransaction, namespace: str, limits: Sequence[LimitFigures]
) -> dict[str, LimitFigures | None]:
    names = [figures.name for figures in limits]
    rows = await connection.rows(limit_statements.READ_LIMITS, (namespace, names))
    return {name: figures_of(stored) for name, stored in rows}


async def _declare(transaction: PostgresTransaction, limits: Sequence[LimitFigures]) -> list[LimitFigures]:
    await transaction.lock_lines()
    stored = await _declared(transaction, transaction.namespace, limits)
    changed: list[LimitFigures] = []
    for figures in limits:
        before = stored.get(figures.name)
        if before == figures:
            continue
        if before is not None:
            changed.append(before)
        row = (transaction.namespace, figures.name, stored_figures(figures))
        await transaction.change(limit_statements.DECLARE_LIMIT, row)
        await PostgresLines(transaction).open_all(figures.name)
        stored[figures.name] = figures
    return changed


async def _override(transaction: PostgresTransaction, name: str, figures: LimitFigures | None) -> bool:
    await transaction.lock_lines()
    row = (transaction.namespace, name, None if figures is None else stored_figures(figures))
    found = await transaction.change(limit_statements.OVERRIDE_LIMIT, row)
    await PostgresLines(transaction).open_all(name)
    return found > 0


async def _records(connection: PostgresConnection, namespace: str, statement: str) -> list[LimitRecord]:
    records: list[LimitRecord] = []
    rows = await connection.rows(statement, (namespace,))
    for name, declared, override, running, waiting, keys in rows:
        figures = figures_of(override or declared) or LimitFigures(name)
        before = figures_of(declared) if override else None
        records.append(LimitRecord(figures, running, waiting, keys, before))
    return records
