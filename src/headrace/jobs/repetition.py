"""What a call says about being enqueued again: its unique window, `on_duplicate` and `debounce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.core.errors import ConfigurationError, DuplicateJob
from headrace.core.messages.message import OnDuplicate, UniqueKey
from headrace.core.runtime.clock import microseconds
from headrace.jobs.handles.job import Job

from .options import CallOptions, TaskOptions, UniqueUntil, check_debounce


class Repetition(msgspec.Struct, frozen=True, gc=False):
    """The options of a call and its task, put together."""

    unique: bool
    until: UniqueUntil = "finished"
    on_duplicate: OnDuplicate = "keep"
    delay_us: int = 0  # of a debounced job

    def unique_key(self, key: str) -> UniqueKey:
        """The key, for as long as the job is unique. A job that may be replaced is unique until it starts."""
        if self.on_duplicate == "replace":
            return UniqueKey(key, "started")
        if isinstance(self.until, str):
            return UniqueKey(key, self.until)
        return UniqueKey(key, "elapsed", microseconds(self.until))


_NOT_UNIQUE = Repetition(unique=False)


def repetition_of(task: TaskOptions, options: CallOptions) -> Repetition:
    """What holds for one call. The options of the call override those of the task."""
    on_duplicate = task.on_duplicate if options.on_duplicate is UNSET else options.on_duplicate
    debounce = task.debounce if options.debounce is UNSET else options.debounce
    if not _is_unique(task, options, debounce):
        return _NOT_UNIQUE if on_duplicate != "raise" else Repetition(unique=False, on_duplicate="raise")
    until = task.unique_until if options.unique_until is UNSET else options.unique_until
    if debounce is not None:
        check_debounce(options)
        on_duplicate = "replace"
    if on_duplicate == "replace" and options.job_id is not UNSET:
        raise ConfigurationError(
            "job_id= does not go with debounce= or on_duplicate='replace': a job with a given id is stored "
            "once, so write unique_key= instead"
        )
    return Repetition(True, until, on_duplicate, 0 if debounce is None else microseconds(debounce))


def _is_unique(task: TaskOptions, options: CallOptions, debounce: float | None) -> bool:
    if options.unique is not UNSET:
        return options.unique
    return task.unique or debounce is not None or options.unique_key is not UNSET


def duplicate_job(job: Job[Any], accepted: Sequence[Job[Any]] = ()) -> DuplicateJob:
    """The error of a call with `on_duplicate="raise"`."""
    return DuplicateJob(
        f"job {job.id} in queue {job.queue!r} has this unique key or id already; use it (.job of this "
        'error), or write on_duplicate="keep" or "replace"',
        job=job,
        accepted=accepted,
    )
