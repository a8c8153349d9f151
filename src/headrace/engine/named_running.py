"""What a worker has in hand, as it names it in its announcement."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from headrace.core.record import RunningJob

from .run import Run

#: Running jobs that are named, at most.
NAMED = 100


def named_running(runs: Iterable[Run]) -> tuple[RunningJob, ...]:
    return tuple(RunningJob(run.id, run.task, run.claim.claimed_us) for run in islice(runs, NAMED))
