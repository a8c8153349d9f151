"""Timeouts of running jobs: one heap and one timer, instead of a timer for each job."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from math import inf

from .run import Run

#: Ended runs stay in the heap until their time. So the heap is swept at this size, and whenever it doubles.
SMALLEST_SWEEP = 1024


class Deadlines:
    """Calls `time_out` with each run whose timeout has passed. It watches only runs with a timeout."""

    def __init__(self, time_out: Callable[[Run], None]) -> None:
        self._time_out = time_out
        self._heap: list[tuple[float, int, Run]] = []
        self._order = count()
        self._timer: asyncio.Handle | None = None
        self._timer_at = inf  # uvloop gives a timer that is due at once no `when()`
        self._sweep_at = SMALLEST_SWEEP

    def watch(self, run: Run, timeout: float) -> None:
        """End `run` in `timeout` seconds unless it has ended by then. This replaces an earlier timeout."""
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        at = run.ends_at = asyncio.get_running_loop().time() + timeout
        heapq.heappush(self._heap, (at, next(self._order), run))
        if at < self._timer_at:
            self._arm(at)

    def pause(self, run: Run) -> None:
        """Do not time the run out until it is watched again."""
        run.ends_at = inf

    def close(self) -> None:
        self._heap.clear()
        self._disarm()

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].ended]
        heapq.heapify(self._heap)
        self._sweep_at = max(SMALLEST_SWEEP, 2 * len(self._heap))

    def _arm(self, at: float) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_at(at, self._fire)
        self._timer_at = at

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf

    def _fire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer, self._timer_at = None, inf
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].ended):
            _, _, run = heapq.heappop(self._heap)
            if not run.ended and run.ends_at <= now:
                self._time_out(run)
        if self._heap:
            self._arm(self._heap[0][0])
