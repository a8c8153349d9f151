"""The log lines of one run so far: bounded, and safe to add to from any thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from headrace.core.messages.job_log import LOG_BYTES, NO_LOG, JobLog, LogLine


class RunLog:
    """Keeps the latest lines, with times of this machine. Calls `changed` after each, in the line's thread.

    The garbage collector may run at any step, and a finaliser may log. Then the same thread adds a line while
    it adds another, so the lock is re-entrant. Lines are added under the lock of the logging handler as well.
    So code that reads the lines must not log while it holds this lock.
    """

    def __init__(self, most: int, changed: Callable[[], None] | None = None) -> None:
        self.most = most
        self.unwritten: bool = False  # lines were added since the last read
        self._changed = changed
        self._lock = threading.RLock()
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._dropped = 0

    def add(self, *lines: LogLine, dropped: int = 0) -> None:
        with self._lock:
            self._dropped += dropped
            for line in lines:
                self._keep(line)
        self.unwritten = True
        if self._changed is not None:
            self._changed()

    def _keep(self, line: LogLine) -> None:
        size = line.size
        self._lines.append(line)
        self._size += size
        while len(self._lines) > self.most or self._size > LOG_BYTES:
            size = self._lines.popleft().size
            self._size -= size
            self._dropped += 1

    def so_far(self, now_us: int) -> JobLog:
        """The whole log, with times of a clock that shows `now_us` now."""
        lead_us = now_us - time.time_ns() // 1000
        self.unwritten = False  # before the copy: later lines go with the next read
        kept, dropped = list(self._lines), self._dropped  # without the lock: copying a deque is one step
        lines = tuple(LogLine(line.attempt, line.at_us + lead_us, line.level, line.text) for line in kept)
        return JobLog(lines, dropped) if lines or dropped else NO_LOG

    def taken(self) -> tuple[Sequence[LogLine], int]:
        """Take the lines since the last call, with times of this machine, and how many were left out. A child
        process sends them to its worker."""
        rest: deque[LogLine] = deque()
        with self._lock:
            lines, self._lines = self._lines, rest
            dropped, self._dropped, self._size = self._dropped, 0, 0
            self.unwritten = False
        return lines, dropped
