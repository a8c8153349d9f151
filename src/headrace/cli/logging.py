"""Log lines for a person at a terminal."""

from __future__ import annotations

import logging
import os
import sys

_COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1", logging.DEBUG: "2"}


class Lines(logging.Formatter):
    """The time, a short level, the text; colours only on a terminal."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"\x1b[{colour}m{line}\x1b[0m" if colour else line


def start_logging(level: str) -> None:
    """Send log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(coloured=sys.stderr.isatty() and "NO_COLOR" not in os.environ))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
