"""How the demo shows itself: lines, and a bar on a terminal."""

from __future__ import annotations

import time

from headrace.cli.output.progress import Steps
from headrace.cli.output.render import echo


class Stage:
    """Says what happens, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        echo(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def bar(self, what: str, total: int) -> Steps:
        return Steps(f"         {what}", total)
