"""What follows when jobs that waited for a time are queued: they ask for their keys, and join their lines."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints
from headrace.stores.postgres.rows.columns import columns
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.statements import drawing_statements, limit_statements
from headrace.stores.postgres.topics.key_order import next_in_line_us
from headrace.stores.sql.lanes import FIRST_PRIORITY, PARKED
from headrace.stores.sql.limits.budgets import constraints_of
from headrace.stores.sql.limits.line_changes import LineChanges

from .lines import PostgresLines, numbers_of
from .ordered_jobs import let_in


async def number_staged(transaction: PostgresTransaction, stream: int, ids: Sequence[str]) -> None:
    """Jobs that transactions of users have written get the numbers of their constraints."""
    rows = await transaction.rows(limit_statements.READ_STAGED, (stream, list(ids))) if ids else []
    if rows:
        constraints = {id: _storable(constraints_of(content)) for id, content in rows}
        numbers = await numbers_of(transaction, stream, constraints.values())
        numbered = columns([(id, numbers[each]) for id, each in constraints.items()])
        await transaction.change(limit_statements.NUMBER_STAGED, (stream, *numbered))


def _storable(constraints: Constraints) -> Constraints:
    """A damaged row may have characters that no other row can hold."""
    texts = [constraints.tenant, *[text for each in constraints.limits for text in (each.limit, each.key)]]
    return NO_CONSTRAINTS if any(["\0" in text for text in texts]) else constraints


async def enter(transaction: PostgresTransaction, stream: int, ids: Sequence[str]) -> None:
    """The rows of the jobs are in their places already, and counted. Those whose key is held are parked."""
    jobs = await transaction.rows(limit_statements.READ_QUEUED, (stream, list(ids))) if ids else []
    answers = await let_in(transaction, stream, [(key, id) for id, _, _, key in jobs])
    changes = LineChanges()
    parked: list[str] = []
    for (id, constraints, place, _), is_in in zip(jobs, answers, strict=True):
        if is_in:
            changes.moved[constraints, place] += 1
        else:
            parked.append(id)
    if parked:
        at_us = await next_in_line_us(transaction, stream)
        await transaction.change(drawing_statements.PARK, (stream, parked, at_us))
        transaction.count(stream, PARKED, len(parked))
        transaction.count(stream, FIRST_PRIORITY, -len(parked))
    await PostgresLines(transaction).follow(changes)
