"""The app of the demo: a small shop. Its workers are real processes, started as `headrace worker`."""

from __future__ import annotations

import asyncio
import os

from headrace import App, RetryPolicy, current_job

#: The variable with the URL of the store: the demo sets it for itself and for its workers.
STORE = "HEADRACE_DEMO_STORE"

#: `result_ttl` below: the demo counts jobs at its end, also those that return nothing.
app = App(os.environ[STORE])


@app.task(name="greet", queue="mails", result_ttl=3600)
async def greet(customer: int) -> None:
    """A quick job, which does nothing."""


@app.task(name="pack", result_ttl=3600)
async def pack(order: int) -> None:
    """Takes a moment, so that the killed worker always runs some."""
    await asyncio.sleep(0.25)


@app.task(name="thumbnail", run_in="process")
def thumbnail(picture: int) -> int:
    """CPU work, in a process of its own."""
    return sum(number * number % 255 for number in range(400_000)) + picture


@app.task(name="charge", retry=RetryPolicy.fixed(3, 0.3))
async def charge(order: int) -> int:
    """The bank answers at the second attempt. Returns the number of the attempt."""
    if current_job().attempt == 1:
        raise ConnectionError(f"the bank did not answer for order {order}")
    return current_job().attempt


@app.task(name="refund", retry=RetryPolicy.fixed(1, 0.2))
async def refund(order: int) -> None:
    """Always fails: it becomes a dead letter."""
    raise LookupError(f"order {order} was never paid")


@app.task(name="remind", result_ttl=3600)
async def remind(customer: int) -> None:
    """Enqueued with a delay."""


@app.task(name="count_stock", unique=True, result_ttl=3600)
async def count_stock() -> None:
    """Unique: five calls store one job."""
    await asyncio.sleep(0.2)


@app.every(2)
@app.task(name="tidy_up", queue="upkeep", result_ttl=3600)
async def tidy_up() -> None:
    """Scheduled: once every two seconds, however many workers there are."""
