"""A paused task is a limit of its own, by which none of its jobs may run. Workers give it to jobs that they
claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .figures import LimitFigures, LimitRecord

#: The beginning of the name of such a limit; then comes the name of the task.
PAUSED: Final = "paused:"


def pause_of(task: str, *, paused: bool) -> LimitFigures:
    """The figures to declare. A task that is not paused any more has a limit that limits nothing."""
    return LimitFigures(f"{PAUSED}{task}", 0 if paused else None)


def is_resumed(record: LimitRecord) -> bool:
    """Whether this is the limit of a task that was paused and resumed."""
    return record.figures.name.startswith(PAUSED) and record.figures.max_running is None


def paused_tasks(limits: Iterable[LimitFigures | None]) -> frozenset[str]:
    """The tasks that are paused by these limits of a store."""
    return frozenset(
        limit.name.removeprefix(PAUSED)
        for limit in limits
        if limit is not None and limit.max_running == 0 and limit.name.startswith(PAUSED)
    )
