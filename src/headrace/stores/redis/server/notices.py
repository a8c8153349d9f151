"""Logs warnings about the server: some once in a process, others at most once a second."""

from __future__ import annotations

import logging
import time

#: Seconds between two lines of the same kind.
INTERVAL = 1.0

logger = logging.getLogger("headrace")

_warned: set[tuple[str, str]] = set()


def warn_once(server: str, what: str, *, about: str = "") -> None:
    """Log a warning about a server once in this process. With `about`: only one warning on that subject."""
    key = (server, about or what)
    if key not in _warned:
        _warned.add(key)
        # A command that only looks at the store drops it: `headrace doctor` is the place for it there.
        logger.warning("%s %s", server, what, extra={"finding": about})


class Notices:
    """Warnings of one kind. A warning within the interval after the last one is not logged."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    def warn(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + INTERVAL
            logger.warning("%s", text)
