"""A view that is drawn again every second, on a screen of its own, until a key ends it."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from rich.console import RenderableType
from rich.live import Live

from .render import console, is_terminal

#: Seconds between two drawings.
EVERY = 1.0


def watch(draw: Callable[[], RenderableType]) -> None:
    """Until q or Ctrl-C."""
    with Keys() as keys, Live(console=console(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(draw(), refresh=True)
                if keys.quit_within(EVERY):
                    return
        except KeyboardInterrupt:
            return


class Keys:
    """The keyboard, key by key and without echo."""

    def __init__(self) -> None:
        # There is no termios on Windows, where Ctrl-C ends it.
        self._readable = find_spec("termios") is not None and is_terminal("stdin")
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if self._readable:
            import termios
            import tty

            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._readable:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def quit_within(self, seconds: float) -> bool:
        """Whether q is pressed before so much time has passed."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self._readable:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0] and _ends(os.read(sys.stdin.fileno(), 100)):
                return True
        return False


def _ends(typed: bytes) -> bool:
    return b"q" in typed.lower() or not typed
