"""A worker's sign of life: now and then one line that says what it did."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

from headrace.engine.worker import Worker

from .supervisor import SUPERVISOR

#: Seconds between two lines; nothing is said when nothing was done.
EVERY = 10.0

#: Seconds between looks at whether the supervisor is still there.
LOOK = 1.0

logger = logging.getLogger("headrace")


class Pulse:
    """Runs beside a worker. Also ends it when its supervisor is gone, so that no child is left behind."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._supervisor = os.environ.get(SUPERVISOR)

    async def __aenter__(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        said_at, said = time.monotonic(), 0
        while True:
            await asyncio.sleep(LOOK)
            if self._supervisor is not None and os.getppid() != int(self._supervisor):
                logger.warning("the supervisor is gone: stopping")
                self._supervisor = None
                os.kill(os.getpid(), signal.SIGTERM)
            elapsed = time.monotonic() - said_at
            if elapsed >= EVERY:
                self._say(self._worker.processed - said, elapsed)
                said_at, said = time.monotonic(), self._worker.processed

    def _say(self, done: int, elapsed: float) -> None:
        if done:
            rate = done / elapsed
            pace = f"{rate:,.0f} a second" if rate >= 1 else f"{rate * 60:,.0f} a minute"
            running = self._worker.running
            logger.info("%s %s in %.0f s, %s, %s running", f"{done:,}", self._noun(), elapsed, pace, running)

    def _noun(self) -> str:
        if not self._worker.subscriptions:
            return "jobs"
        return "jobs and events" if self._worker.options.queues else "events"
