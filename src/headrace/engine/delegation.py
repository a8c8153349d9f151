"""A run as a job for a child process, and what the child says of it on the way."""

from __future__ import annotations

from .pipe import Assignment, Logged, Progressed
from .run import Run
from .run_log import RunLog


def assignment_of(run: Run) -> Assignment:
    return Assignment(
        module=run.handler.function.__module__,
        task=run.task,
        queue=run.queue,
        id=run.id,
        body=run.claim.body,
        state=run.claim.state,
        timeout=run.timeout,
    )


def hear(run: Run, said: Progressed | Logged) -> None:
    if isinstance(said, Progressed):
        run.progress_sync(said.fraction, said.text)
        return
    if run.log is None:
        run.log = RunLog(run.handler.job_logs)
    run.log.add(*said.lines, dropped=said.dropped)
