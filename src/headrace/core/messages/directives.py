"""What a handler raises or returns to decide the outcome of its job, or of single events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.core.values.durations import Duration, seconds


class RetryLater(Exception):
    """Raise it in a handler: run this job again after `delay` seconds. It counts as a failure, and the task's
    retries bound it. `why` is the text of the failure."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"asked to be retried in {delay}")
        self.delay: float = seconds("delay", delay)


class Snooze(Exception):
    """Raise it in a handler: run this job again after `delay` seconds. It spends no attempt: it was too early
    for the job. `why` is a text for people."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(why or f"snoozed for {delay}")
        self.delay: float = seconds("delay", delay)


class Unrecoverable(Exception):
    """Raise it in a handler: trying again is useless. The job goes to the dead letters now, with this
    text."""


class BatchResult(msgspec.Struct, frozen=True):
    """What a batch handler may return. `failed` has the events of the list that failed, by index, each with
    its error: an exception or a text. All others succeeded."""

    failed: Mapping[int, BaseException | str] = {}


# Tracebacks and dead letters show these by the names that users import, as with the errors.
for _each in (RetryLater, Snooze, Unrecoverable):
    _each.__module__ = "headrace"
