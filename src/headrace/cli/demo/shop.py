"""The demo's app: a small shop. Its workers are real processes, started as `headrace worker`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from headrace import App, RetryPolicy, current_job, signals

from .diary import Diary

#: The folder with the store and the diary, told by the demo to its workers.
FOLDER = "HEADRACE_DEMO"

_folder = Path(os.environ[FOLDER])
diary = Diary(_folder / "diary.jsonl")
app = App(f"sqlite:///{_folder}/shop.db")


@app.task(name="greet", queue="mails", result_ttl=3600)
async def greet(customer: int) -> None:
    """A quick job: nothing but the queue itself."""


@app.task(name="pack")
async def pack(order: int) -> str:
    """Takes a moment, so that a worker which is killed always has some in hand."""
    diary.write("run", id=current_job().id, attempt=current_job().attempt)
    await asyncio.sleep(0.25)
    return f"parcel {order}"


@app.task(name="thumbnail", run_in="process")
def thumbnail(picture: int) -> int:
    """CPU work, in a process of its own."""
    return sum(number * number % 255 for number in range(400_000)) + picture


@app.task(name="charge", retry=RetryPolicy.fixed(3, 0.3))
async def charge(order: int) -> str:
    """The bank answers at the second time."""
    if current_job().attempt == 1:
        raise ConnectionError(f"the bank did not answer for order {order}")
    return "paid"


@app.task(name="refund", retry=RetryPolicy.fixed(1, 0.2))
async def refund(order: int) -> None:
    """Never works: it ends in the dead letters."""
    raise LookupError(f"order {order} was never paid")


@app.task(name="remind")
async def remind(customer: int) -> str:
    """Delayed by those who enqueue it."""
    return f"reminded {customer}"


@app.task(name="count_stock", unique=True)
async def count_stock() -> str:
    """However often it is asked for, once is enough."""
    await asyncio.sleep(0.2)
    return "counted"


@app.every(2)
@app.task(name="tidy_up", result_ttl=3600)
async def tidy_up() -> None:
    """Scheduled: once every two seconds, however many workers there are."""
    diary.write("tidied", id=current_job().id)


@app.on(signals.JobRetrying)
def retrying(signal: signals.JobRetrying) -> None:
    diary.write("retrying", id=signal.id, task=signal.task)


@app.on(signals.JobRecovered)
def recovered(signal: signals.JobRecovered) -> None:
    diary.write("recovered", id=signal.id, task=signal.task)


@app.on(signals.WorkerStarted)
def started(signal: signals.WorkerStarted) -> None:
    diary.write("started")
