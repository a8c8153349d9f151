"""Other processes hear of a commit at once: through a file beside the database that is opened and closed.

Nothing is written to it, so it needs no room on the disk and nothing can be harmed. Nobody need know who
listens, and a process that dies leaves nothing behind. Where the system does not tell of such things (it is
Linux that does, for all processes and containers on one kernel) the reader's looks must do; so they must for
a signal that went astray: it is a courtesy, never a condition.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from . import inotify
from .fair_write_lock import turn_path

#: Seconds between two looks that signals bring about, at least: beside a process that commits without a pause
#: whoever waits shall not be busy with looking.
PAUSE: Final = 0.002

_OPEN: Final = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def send(turn: Path) -> None:
    """Tell every process that waits for something in the database beside this file."""
    if not inotify.AVAILABLE:
        return
    try:
        # Not blocking: what is no plain file must not hold anybody up.
        os.close(os.open(turn, _OPEN | os.O_NONBLOCK))
    except OSError:
        pass


class CommitSignals:
    """Lives on the event loop. `heard` is called for signals from when it is armed for as long as anybody
    waits (`is_awaited`); many in a row make few calls."""

    def __init__(self, path: Path, *, heard: Callable[[], None], is_awaited: Callable[[], bool]) -> None:
        self._path = turn_path(path)
        self._heard = heard
        self._is_awaited = is_awaited
        self._loop = asyncio.get_running_loop()
        self._source: inotify.Inotify | None = None
        self._armed = False
        self._off = not inotify.AVAILABLE
        self._heard_at = -PAUSE
        self._later: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Have the next signal heard. Whoever waits looks after this, so that nothing falls between."""
        if self._armed or self._off or self._later is not None:
            return
        try:
            if self._source is None:
                self._source = inotify.Inotify()
                self._loop.add_reader(self._source.descriptor, self._signalled)
            self._source.watch_once(self._path)
        except FileNotFoundError:
            pass  # the first who writes makes it
        except (OSError, NotImplementedError):
            self._off = True  # it is not to be had here
        else:
            self._armed = True

    def close(self, *, at_home: bool) -> None:
        """Elsewhere than at home the event loop is gone, or belongs to the parent of this process."""
        self._off = True
        if self._later is not None and at_home:
            self._later.cancel()
        source, self._source = self._source, None
        if source is not None:
            if at_home:
                self._loop.remove_reader(source.descriptor)
            source.close()

    def _signalled(self) -> None:
        if self._source is None:
            return
        self._source.read()
        self._armed = False
        if not self._is_awaited():
            return  # who waits next arms it again
        left = self._heard_at + PAUSE - self._loop.time()
        if left <= 0:
            self._hear()
        else:
            self._later = self._loop.call_later(left, self._hear)

    def _hear(self) -> None:
        self._later = None
        self._heard_at = self._loop.time()
        self.arm()
        self._heard()
