"""The signal of a job that died, with a dead letter that fits it."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.core.records.record import DeadLetter
from headrace.core.signals import JobDied


def job_died(
    id: str,
    task: str,
    queue: str,
    attempt: int,
    reason: str,
    error_type: str,
    error: str,
    traceback: str = "",
    seconds: float = 0.0,
) -> JobDied:
    died_at = datetime(2026, 3, 1, tzinfo=UTC)
    letter = DeadLetter(
        id, task, reason, error, traceback, attempt, died_at, b"", error_type=error_type, queue=queue
    )
    return JobDied(
        id,
        task,
        queue,
        attempt=attempt,
        reason=reason,
        error_type=error_type,
        error=error,
        traceback=traceback,
        dead_letter=letter,
        seconds=seconds,
    )
