"""Short ways to have jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headrace import App, Job, JobStatus, Worker, signals
from headrace.core.messages.claim import Claim
from headrace.core.runtime.clock import MovableClock
from tests.waiting import wait_until

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


def pass_time(worker: Worker, clock: MovableClock, seconds: float) -> None:
    """Move the store's clock under a running worker, which looks at once what is due now."""
    clock.advance(seconds)
    worker._parts.upkeep.promotion.something_is_due()


def of(kind: type[S], heard: Sequence[signals.Signal]) -> list[S]:
    """The signals of a kind."""
    return [signal for signal in heard if isinstance(signal, kind)]


async def claimed_ahead(worker: Worker, count: int) -> list[Claim]:
    """Have a worker hold claims that wait for a slot, as if its pace had asked for them."""
    parts = worker._parts
    claims = await parts.store.claim(
        parts.claims.served.claimed, consumer=worker.id, limit=count, suspects=0, wait=0
    )
    parts.claims.in_flight.take(claims)
    parts.running.slots.put(claims)
    return claims
