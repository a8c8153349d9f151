"""What a handler raises or returns to decide the outcome of its job, or of single events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

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


class BatchResult(msgspec.Struct, frozen=True):
    """What a batch handler may return. `failed` has the events of the list that failed, by index, each with
    its error: an exception or a text. All others succeeded."""

    failed: Mapping[int, BaseException | str] = {}


# Tracebacks and dead letters show these by the names that users import, as with the errors.
for _each in (RetryLater, Snooze, Unrecoverable):
    _each.__module__ = "headrace"
