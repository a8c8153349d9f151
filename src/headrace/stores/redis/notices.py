"""Lines for the log about the server itself: some once in a process, none more often than once a second."""

from __future__ import annotations

import logging
import time

#: Seconds between two lines of the same kind.
INTERVAL = 1.0

logger = logging.getLogger("headrace")

_said: set[tuple[str, str]] = set()


def warn_once(server: str, what: str, *, about: str = "") -> None:
    """The same is said of the same server once in this process; `about`: and nothing else about this."""
    key = (server, about or what)
    if key not in _said:
        _said.add(key)
        logger.warning("%s %s", server, what)


class Notices:
    """Of one kind: what happens again within the interval is not told again."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    def warn(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + INTERVAL
            logger.warning("%s", text)
