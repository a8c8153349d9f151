"""Makes the write lock fair: a writer that waits for it gets it next.

SQLite gives its lock to the process that asks at the right moment, and waiting processes ask less and less
often. Beside a process that writes without a pause, another one waited 1.2 s at the median and 4 s at worst:
long enough for leases to expire. With turns it waits a few milliseconds. A writer first takes the turn, and
holds it until it has the lock. So a writer that comes back is behind those that wait.

Turns are optional: they are skipped where there is no `flock`, and when one takes too long.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from headrace.stores.sqlite.file.privacy import open_beside

if sys.platform != "win32":
    import fcntl

#: Seconds for which a writer may come back without taking the turn again. A change of writers costs about a
#: millisecond of idle time, so turns of a few milliseconds keep two thirds of the throughput.
TURN: Final = 0.01

#: Seconds between two tries, for urgent steps and for others.
HURRIED: Final = 0.0001
PATIENT: Final = 0.0005

#: Seconds to try, and seconds to skip turns after that failed. A process may have stopped while it had the
#: turn, and the others must not wait for it each time.
PATIENCE: Final = 0.5
DETOUR: Final = 10.0


def turn_path(path: Path) -> Path:
    """The path of the empty file beside a database; for a symbolic link, beside the database itself."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}-turn")


class FairWriteLock:
    """An advisory lock on an empty file beside the database. Each thread has its own object."""

    def __init__(self, path: Path) -> None:
        self.path = turn_path(path)
        self._database = path
        self._file: int | None = None
        self._passed_at = -TURN
        self._avoid_until = 0.0

    def enter(self, *, urgent: bool = True) -> bool:
        """Take the turn. True: call `leave` once the write lock is held."""
        now = time.monotonic()
        pause = HURRIED if urgent else PATIENT
        while (passing := self.try_to_enter()) is None:
            if time.monotonic() > now + PATIENCE:
                self._avoid_until = now + DETOUR
                return False
            time.sleep(pause)
        return passing

    def try_to_enter(self) -> bool | None:
        """Take the turn without waiting, like `enter`; None: another writer has it."""
        now = time.monotonic()
        if now - self._passed_at < TURN or now < self._avoid_until:
            return False
        return True if self._lock() else None

    def leave(self, *, passed: bool = True) -> None:
        """`passed`: the writer got the write lock. Without the lock it has no turn."""
        if passed:
            self._passed_at = time.monotonic()
        if sys.platform != "win32" and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _lock(self) -> bool:
        if sys.platform == "win32":
            return True
        try:
            if self._file is None:
                self._file = open_beside(self.path, self._database)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # The file cannot be created here: skip the turn.
        return True
