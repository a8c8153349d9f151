"""Waits for the results of many jobs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from headrace.core.errors import ConfigurationError
from headrace.core.values.durations import Duration, seconds

from .job import Job

R = TypeVar("R")


async def results_of(
    jobs: Iterable[Job[R]], timeout: Duration | None, return_exceptions: bool
) -> list[R | BaseException]:
    """The results of these jobs, in their order; see `App.results`."""
    limit = None if timeout is None else seconds("timeout", timeout)
    waiting = [asyncio.ensure_future(_checked(job).result(limit)) for job in list(jobs)]
    try:
        return await asyncio.gather(*waiting, return_exceptions=return_exceptions)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _checked(job: Job[R]) -> Job[R]:
    if not isinstance(job, Job):
        raise ConfigurationError(f"results takes jobs, such as those of enqueue_many, not {job!r}")
    return job
