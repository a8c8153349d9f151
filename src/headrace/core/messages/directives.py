"""What a handler raises to say what is to become of its job."""

from __future__ import annotations

from headrace.core.values.durations import Duration, seconds


class RetryLater(Exception):
    """Run this job again after `delay`. It counts as a failure, and the task's retries bound it."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"asked to be retried in {delay}")
        self.delay: float = seconds("delay", delay)


class Snooze(Exception):
    """Run this job again after `delay`, and spend no attempt: it was not its turn yet."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"snoozed for {delay}")
        self.delay: float = seconds("delay", delay)


class Unrecoverable(Exception):
    """Trying again is useless: bury this job in the dead letters now."""


# As with the errors: tracebacks and dead letters call them by the names that users import.
for _each in (RetryLater, Snooze, Unrecoverable):
    _each.__module__ = "headrace"
