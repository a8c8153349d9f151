"""A worker as it announces itself to the store."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

from headrace.core.clock import SECOND
from headrace.core.record import RunningJob, WorkerInfo

from .identity import host_name
from .run import Run
from .worker_options import WorkerOptions

#: Running jobs that are named, at most.
NAMED = 100


def announcement(
    consumer: str,
    options: WorkerOptions,
    *,
    started_us: int,
    polled_at: float,
    groups: tuple[str, ...],
    timings: tuple[str, ...],
    running: Iterable[Run],
) -> WorkerInfo:
    return WorkerInfo(
        consumer=consumer,
        host=host_name(),
        pid=os.getpid(),
        started_us=started_us,
        queues=options.queues,
        concurrency=options.concurrency,
        polled_us=round(polled_at * SECOND),
        groups=groups,
        timings=timings,
        running=tuple(RunningJob(run.id, run.task, run.claim.claimed_us) for run in islice(running, NAMED)),
    )
