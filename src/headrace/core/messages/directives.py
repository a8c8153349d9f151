"""The exceptions that a handler raises to decide the outcome of its job."""

from __future__ import annotations

from headrace.core.values.durations import Duration, seconds


class RetryLater(Exception):
    """Run this job again after `delay`. It counts as a failure, and the task's retries bound it."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"asked to be retried in {delay}")
        self.delay: float = seconds("delay", delay)


class Snooze(Exception):
    """Run this job again after `delay`. It spends no attempt: it was too early for the job."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"snoozed for {delay}")
        self.delay: float = seconds("delay", delay)


class Unrecoverable(Exception):
    """Trying again is useless: move this job to the dead letters now."""


# Tracebacks and dead letters show these by the names that users import, as with the errors.
for _each in (RetryLater, Snooze, Unrecoverable):
    _each.__module__ = "headrace"
