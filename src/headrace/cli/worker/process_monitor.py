"""Watches a worker process: logs what it has done, and stops it when its supervisor is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

from headrace.engine.worker import Worker

from .supervisor import SUPERVISOR

#: Seconds between two log lines. There is no line when no job was done.
EVERY = 10.0

#: Seconds between two checks of the supervisor.
LOOK = 1.0

logger = logging.getLogger("headrace")


class ProcessMonitor:
    """`async with ProcessMonitor(worker): await worker.run()`"""

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
