"""Tasks that run in child processes: they have to be found by their module's name.

They sleep where a user's function would work or hang; the tests that use them wait for what they say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

from headrace import App, RetryLater, RetryPolicy, Snooze, Unrecoverable, current_job

app = App("memory://", retry=RetryPolicy.fixed(2, 0.01), job_logs=20)
log = logging.getLogger(__name__)


@app.task(run_in="process")
def where() -> int:
    return os.getpid()


@app.task(run_in="process")
def meet(folder: str) -> int:
    """Returns when two of these run at the same time."""
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.01)  # between two looks: it waits for the other process, not for a time
    return os.getpid()


@app.task(run_in="process")
async def who(number: int) -> tuple[str, int, str, int]:
    await asyncio.sleep(0)
    job = current_job()
    return job.id, job.attempt, job.headers["source"], number


@app.task(run_in="process")
def write(lines: int) -> int:
    for number in range(lines):
        log.info("line %d", number)
    log.warning("the last of %d", lines)
    return os.getpid()


@app.task(run_in="process")
async def write_and_hang(text: str) -> None:
    log.warning("%s", text)
    await asyncio.sleep(3600)


@app.task(run_in="process", retry=RetryPolicy.none())
def enqueue_another() -> None:
    where.sync.enqueue()


@app.task(run_in="process", retry=RetryPolicy.none())
def publish_one() -> None:
    app.topic("orders", int).sync.publish(7)


@app.task(run_in="process")
def vanish() -> None:
    os._exit(7)


@app.task(run_in="process")
def chatter(times: int) -> None:
    """Says often how far it is, and then nothing more."""
    for number in range(1, times + 1):
        current_job().progress_sync(number / times, f"row {number}")
    time.sleep(3600)  # a function that hangs: the test reads what it said, and then ends it


@app.task(run_in="process")
async def say(text: str) -> None:
    await current_job().progress(0.5, text)
    await asyncio.sleep(3600)


@app.task(run_in="process")
def say_and_end() -> None:
    current_job().progress_sync(1.0, "of the job before")


@app.task
def say_in_thread(text: str) -> str:
    current_job().progress_sync(0.5, text)
    while not current_job().cancelled:
        time.sleep(0.01)  # between two looks: it runs until it is cancelled
    return text


@app.task(run_in="process")
def hang() -> None:
    time.sleep(3600)  # until its timeout or its cancellation kills the process: that is what is tested


@app.task(run_in="process")
def fail(how: str) -> str:
    job = current_job()
    if how == "once" and job.attempt == 1:
        raise ValueError("not the first time")
    if how == "later" and job.attempt == 1:
        raise RetryLater(0.01)
    if how == "snooze" and not job.headers.get("woken"):
        raise Snooze(0.01)
    if how == "never":
        raise Unrecoverable("no use")
    return f"attempt {job.attempt}"


@app.task(run_in="process", result_ttl=60)
def unspeakable() -> object:
    return object()
