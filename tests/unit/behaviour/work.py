"""Short ways to have jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headrace import App, Job, JobStatus, signals
from tests.support.waiting import wait_until

S = TypeVar("S", bound=signals.Signal)

#: Seconds. Tests that move the clock use it, so that no lease runs out meanwhile.
LONG = 1e6


async def drain(app: App, *, concurrency: int = 10, lease: float = LONG) -> None:
    """Run what is queued, retrying or due, until nothing of it is left."""
    await app.worker(concurrency=concurrency, lease=lease).run(burst=True)


async def until(job: Job[Any], status: JobStatus) -> None:
    """Wait until a job is where it should be."""

    async def is_there() -> bool:
        return await job.status() is status

    await wait_until(is_there, message=f"{job} is {status}")


def of(kind: type[S], heard: Sequence[signals.Signal]) -> list[S]:
    """The signals of a kind."""
    return [signal for signal in heard if isinstance(signal, kind)]
