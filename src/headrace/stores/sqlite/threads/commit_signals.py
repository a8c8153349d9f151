"""Signals a commit to other processes at once: opens and closes a file beside the database.

Nothing is written to the file, so it needs no room on the disk and can do no harm. The sender need not know
the listeners, and a process that dies leaves nothing behind. Only Linux reports such events, for all
processes and containers on one kernel. Elsewhere, and when a signal is lost, the reader's regular looks
suffice: signals only save time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.stores.sqlite.connection.fair_write_lock import turn_path

from . import inotify

#: The least seconds between two looks that signals cause. A waiting process must not be busy with looking
#: while another process commits without a pause.
PAUSE: Final = 0.002

_OPEN: Final = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def send(turn: Path) -> None:
    """Signal every process that waits for something in the database beside this file."""
    if not inotify.AVAILABLE:
        return
    try:
        # Not blocking: a path that is not a plain file must not hold up the writer.
        os.close(os.open(turn, _OPEN | os.O_NONBLOCK))
    except OSError:
        pass


class CommitSignals:
    """Runs on the event loop. Calls `on_signal` for signals after `arm`, while a caller waits (`is_awaited`).
    Many signals in a row cause few calls."""

    def __init__(self, path: Path, *, on_signal: Callable[[], None], is_awaited: Callable[[], bool]) -> None:
        self._path = turn_path(path)
        self._on_signal = on_signal
        self._is_awaited = is_awaited
        self._loop = asyncio.get_running_loop()
        self._source: inotify.Inotify | None = None
        self._armed = False
        self._off = not inotify.AVAILABLE
        self._called_at = -PAUSE
        self._later: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Listen for the next signal. A waiting caller looks at the file after this call, so that it misses
        nothing."""
        if self._armed or self._off or self._later is not None:
            return
        try:
            if self._source is None:
                self._source = inotify.Inotify()
                self._loop.add_reader(self._source.descriptor, self._signalled)
            self._source.watch_once(self._path)
        except FileNotFoundError:
            pass  # the first writer creates the file
        except (OSError, NotImplementedError):
            self._off = True  # inotify is not available here
        else:
            self._armed = True

    def close(self, *, on_own_loop: bool) -> None:
        """`on_own_loop` False: the event loop is gone, or belongs to the parent of this process."""
        self._off = True
        if self._later is not None and on_own_loop:
            self._later.cancel()
        source, self._source = self._source, None
        if source is not None:
            if on_own_loop:
                self._loop.remove_reader(source.descriptor)
            source.close()

    def _signalled(self) -> None:
        if self._source is None:
            return
        self._source.read()
        self._armed = False
        if not self._is_awaited():
            return  # the next caller that waits arms it again
        left = self._called_at + PAUSE - self._loop.time()
        if left <= 0:
            self._call()
        else:
            self._later = self._loop.call_later(left, self._call)

    def _call(self) -> None:
        self._later = None
        self._called_at = self._loop.time()
        self.arm()
        self._on_signal()
