"""What follows when jobs that waited for a time are queued: they ask for their keys, and join their lines."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.stores.sql.lanes import FIRST_PRIORITY
from headrace.stores.sql.limits.line_changes import LineChanges
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.key_order import next_in_line_us

from .lines import LineTable
from .ordered_jobs import let_in, park

#: The number of a job, its constraints, the place where it is queued, its order key, its id.
QueuedJob = tuple[int, int | None, int, str | None, str]


def enter(transaction: Transaction, stream: int, jobs: Sequence[QueuedJob]) -> None:
    """The rows of the jobs are in their lanes already, and counted. Those whose key is held are parked."""
    if not any([job[1] is not None or job[3] is not None for job in jobs]):
        return
    answers = let_in(transaction, stream, [(key, id) for _, _, _, key, id in jobs])
    changes = LineChanges()
    parked: list[int] = []
    for (seq, constraints, place, _, _), is_in in zip(jobs, answers, strict=True):
        if not is_in:
            parked.append(seq)
        elif constraints is not None:
            changes.moved[constraints, place] += 1
    if parked:
        park(transaction, stream, parked, next_in_line_us(transaction, stream))
        transaction.count(stream, FIRST_PRIORITY, -len(parked))
    LineTable(transaction).follow(changes)
