"""Tasks for real workers whose functions must be found by name: CPU work in children, and progress.

The sleep stands for work that hangs: the test kills its worker meanwhile and waits for the second run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from headrace import App, current_job
from tests.integration.programs.recording_app import LOG, STORE, Log

app = App(os.environ.get(STORE, "memory://"), job_logs=10)
log = Log(Path(os.environ.get(LOG, os.devnull)))


@app.task(name="grind", run_in="process")
def grind() -> str:
    """Hangs where it is run first, returns at once where it is run again."""
    job = current_job()
    log.write("started", id=job.id, attempt=job.attempt, parent=os.getppid())
    logging.getLogger("restarted_program").warning("grinding")
    if job.attempt == 1:
        time.sleep(3600)  # a function that hangs until its worker is killed: that is what is tested
    return "ground"


@app.task(name="count")
async def count() -> str:
    """Reports without end where it is run first."""
    job = current_job()
    log.write("started", id=job.id, attempt=job.attempt)
    logging.getLogger("restarted_program").warning("counting")
    number = 0
    while job.attempt == 1:
        number += 1
        await job.progress(number % 100 / 100, f"step {number}")
        await asyncio.sleep(0.001)
    return "counted"
