"""What one run has written through `logging` so far: bounded, from any thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from headrace.core.messages.job_log import LOG_BYTES, NO_LOG, JobLog, LogLine


class RunLog:
    """Keeps the latest lines, with times of this machine. `changed` is called after each, from its thread.

    The garbage collector may run at any step, and what it finalises may log: then a line comes while another
    is added, in the same thread. So the lock can be taken again by who has it. Lines are added under the lock
    of the logging handler as well, so whoever asks for them from elsewhere must not log while he holds ours.
    """

    def __init__(self, most: int, changed: Callable[[], None] | None = None) -> None:
        self.most = most
        self.unwritten: bool = False  # something has come since it was last asked for
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
        """All of it, in times of a clock that shows `now_us` now."""
        lead_us = now_us - time.time_ns() // 1000
        self.unwritten = False  # first: what comes from here on is told next time
        kept, dropped = list(self._lines), self._dropped  # without the lock: copying a deque is one step
        lines = tuple(LogLine(line.attempt, line.at_us + lead_us, line.level, line.text) for line in kept)
        return JobLog(lines, dropped) if lines or dropped else NO_LOG

    def taken(self) -> tuple[Sequence[LogLine], int]:
        """What has come since it was last taken, in times of this machine, and how many lines were left out:
        for a child process, which hands it on."""
        rest: deque[LogLine] = deque()
        with self._lock:
            lines, self._lines = self._lines, rest
            dropped, self._dropped, self._size = self._dropped, 0, 0
            self.unwritten = False
        return lines, dropped
