"""Watches a file with Linux's inotify: reports when a process closes it that had it open for writing."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

AVAILABLE: Final = sys.platform == "linux"

#: From <sys/inotify.h>: the event; refuse a symbolic link; report only one event.
CLOSE_WRITE: Final = 0x00000008
DONT_FOLLOW: Final = 0x02000000
ONESHOT: Final = 0x80000000

#: Bytes that are enough for two events about a file.
EVENTS: Final = 4096


class Inotify:
    """Raises an `OSError` when the system gives no instance: a user may have about a hundred."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch_once(self, path: Path) -> None:
        """Make the descriptor readable when the file is next closed after being open for writing."""
        mask = ctypes.c_uint32(CLOSE_WRITE | DONT_FOLLOW | ONESHOT)
        self._checked(self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), mask))

    def read(self) -> None:
        """Read and drop the events that have arrived."""
        try:
            os.read(self.descriptor, EVENTS)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.descriptor)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer
