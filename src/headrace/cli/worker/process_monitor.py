"""Watches a worker process: logs what it has done and, while it stops, what still runs. Stops it when its
supervisor is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from headrace.engine.worker.worker import Worker

from .supervisor import SUPERVISOR

#: Seconds between two log lines. There is no line when no job was done.
EVERY = 10.0

#: Seconds between two checks of the supervisor.
LOOK = 1.0

#: Seconds between two log lines while the worker stops, and the jobs that such a line names at most.
REMIND, NAMED = 5.0, 3

logger = logging.getLogger("headrace")


class ProcessMonitor:
    """`async with ProcessMonitor(worker): await worker.run()`

    `counts`: log every few seconds how many jobs were done. It is False where every job has a line.
    """

    def __init__(self, worker: Worker, *, counts: bool = True) -> None:
        self._worker = worker
        self._counts = counts
        self._stopping_since: float | None = None
        self._reminded_at = 0.0
        self._supervisor = os.environ.get(SUPERVISOR)

    async def __aenter__(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def first_signal(self) -> None:
        """Say how to stop at once."""
        self._stopping_since = self._reminded_at = time.monotonic()
        if self._worker.running:
            again = "Ctrl-C" if sys.stderr.isatty() else "signal"
            logger.info("a second %s stops at once, and hands back what still runs", again)

    def second_signal(self) -> None:
        logger.info("stopping at once: %s running", self._worker.running)

    async def _run(self) -> None:
        reported_at, reported = time.monotonic(), 0
        while True:
            await asyncio.sleep(LOOK)
            if self._supervisor is not None and os.getppid() != int(self._supervisor):
                logger.warning("the supervisor is gone: stopping")
                self._supervisor = None
                os.kill(os.getpid(), signal.SIGTERM)
            self._remind()
            elapsed = time.monotonic() - reported_at
            if elapsed >= EVERY and self._counts:
                self._say(self._worker.processed - reported, elapsed)
                reported_at, reported = time.monotonic(), self._worker.processed

    def _remind(self) -> None:
        """While the worker stops: say for what it waits."""
        now, names = time.monotonic(), self._worker.running_names
        if self._stopping_since is None or not names or now - self._reminded_at < REMIND:
            return
        self._reminded_at = now
        left = self._stopping_since + self._worker.options.grace - now
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        logger.info("waits for %s%s, at most %.0f s more", ", ".join(names[:NAMED]), more, max(0.0, left))

    def _say(self, done: int, elapsed: float) -> None:
        if done:
            rate = done / elapsed
            pace = f"{rate:,.0f} a second" if rate >= 1 else f"{rate * 60:,.0f} a minute"
            running = self._worker.running
            what = f"{done:,} {self._noun(done)}"
            logger.info("%s in %.0f s, %s, %s running", what, elapsed, pace, running)

    def _noun(self, done: int) -> str:
        if not self._worker.subscriptions:
            return "job" if done == 1 else "jobs"
        if not self._worker.options.queues:
            return "event" if done == 1 else "events"
        return "job or event" if done == 1 else "jobs and events"
