"""What one run has written through `logging` so far: bounded, from any thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from headrace.core.job_log import LOG_BYTES, NO_LOG, JobLog, LogLine


class RunLog:
    """Keeps the latest lines, with times of this machine. `changed` is called after each, from its thread."""

    def __init__(self, most: int, changed: Callable[[], None] | None = None) -> None:
        self.most = most
        self.unwritten = False  # something has come since it was last asked for
        self._changed = changed
        self._lock = threading.Lock()
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._dropped = 0

    def add(self, *lines: LogLine, dropped: int = 0) -> None:
        with self._lock:
            self._dropped += dropped
            for line in lines:
                self._lines.append(line)
                self._size += line.size
                while len(self._lines) > self.most or self._size > LOG_BYTES:
                    self._size -= self._lines.popleft().size
                    self._dropped += 1
            self.unwritten = True
        if self._changed is not None:
            self._changed()

    def so_far(self, now_us: int) -> JobLog:
        """All of it, in times of a clock that shows `now_us` now."""
        lead_us = now_us - time.time_ns() // 1000
        with self._lock:
            self.unwritten = False
            lines = tuple(
                LogLine(line.attempt, line.at_us + lead_us, line.level, line.text) for line in self._lines
            )
            return JobLog(lines, self._dropped) if lines or self._dropped else NO_LOG

    def taken(self) -> tuple[Sequence[LogLine], int]:
        """What has come since it was last taken, in times of this machine, and how many lines were left out:
        for a child process, which hands it on."""
        with self._lock:
            lines, dropped = list(self._lines), self._dropped
            self._lines.clear()
            self._size = self._dropped = 0
            self.unwritten = False
            return lines, dropped
