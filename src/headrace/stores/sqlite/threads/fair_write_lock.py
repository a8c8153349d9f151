"""Who waits for the write lock gets it next.

SQLite's lock is taken by whoever asks at the right moment, and those who wait ask ever more rarely. Beside a
process that writes without a pause another waited 1.2 s at the median and 4 s at worst for its turn: long
enough for leases to run out. With a turnstile it waits a few milliseconds. Whoever wants the lock passes the
turnstile first and holds it until the lock is his, so a writer that comes back stands behind those who wait.

It is a courtesy, never a condition: it is left out where there is no `flock` and when it takes too long.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from headrace.stores.sqlite.privacy import open_beside

if sys.platform != "win32":
    import fcntl

#: Seconds for which a writer may come back without passing again. Handing over costs about a millisecond of
#: idle time, so turns of a few milliseconds keep two thirds of the throughput.
TURN: Final = 0.01

#: Seconds between two tries, of what somebody waits for and of the rest.
HURRIED: Final = 0.0001
PATIENT: Final = 0.0005

#: Seconds to try at all, and for how long to do without when that was in vain: somebody was stopped in the
#: turnstile, and the others must not wait for him each time.
PATIENCE: Final = 0.5
DETOUR: Final = 10.0


def turn_path(path: Path) -> Path:
    """The empty file beside a database; a symbolic link's is beside the database itself."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}-turn")


class FairWriteLock:
    """An advisory lock on an empty file beside the database. Each thread has its own turnstile."""

    def __init__(self, path: Path) -> None:
        self.path = turn_path(path)
        self._database = path
        self._file: int | None = None
        self._passed_at = -TURN
        self._avoid_until = 0.0

    def enter(self, *, urgent: bool = True) -> bool:
        """Pass; True when `leave` is to be called once the write lock is held."""
        now = time.monotonic()
        pause = HURRIED if urgent else PATIENT
        while (passing := self.try_to_enter()) is None:
            if time.monotonic() > now + PATIENCE:
                self._avoid_until = now + DETOUR
                return False
            time.sleep(pause)
        return passing

    def try_to_enter(self) -> bool | None:
        """The same without waiting; None: somebody else is inside."""
        now = time.monotonic()
        if now - self._passed_at < TURN or now < self._avoid_until:
            return False
        return True if self._lock() else None

    def leave(self, *, passed: bool = True) -> None:
        """`passed`: with the write lock; who did not get it has no turn."""
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
            return True  # No such file can be made here: do without.
        return True
