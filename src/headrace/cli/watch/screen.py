"""The terminal while it is ours: a screen of its own, keys one by one. It is given back as it was."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.control import Control
from rich.text import Text

from headrace.cli.output.render import is_terminal, safe_text

#: Where a size cannot be had.
USUAL = (80, 24)


class Screen:
    """`with screen: screen.draw(lines)`; `leave` and `enter` in between, while others have the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # There is no termios on Windows, where Ctrl-C ends it.
        self.has_keys = find_spec("termios") is not None and is_terminal("stdin")
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        # A character that the terminal's encoding does not know is no reason to fail.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()

    def enter(self) -> None:
        """Take it; also when the shell has changed it meanwhile."""
        if self.has_keys:
            import termios
            import tty

            if self._before is None:
                self._before = termios.tcgetattr(sys.stdin)
            # At once: what is typed while the shell hands the terminal over is not to be lost.
            tty.setcbreak(sys.stdin, termios.TCSANOW)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def leave(self) -> None:
        """Give it back. One that is gone needs nothing."""
        with contextlib.suppress(OSError):
            self._console.show_cursor(True)
            self._console.set_alt_screen(False)
        if self._before is not None:
            import termios

            with contextlib.suppress(termios.error):
                # Keys that were typed too much are not for the shell.
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, self._before)

    @property
    def keys(self) -> int:
        """The descriptor that has something to read when a key is pressed."""
        return sys.stdin.fileno()

    def read(self) -> bytes:
        """What was typed; nothing: the terminal is gone."""
        try:
            return os.read(self.keys, 1024)
        except OSError:
            return b""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines as they are now: COLUMNS and LINES are not told of a change."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            return USUAL
        return columns or USUAL[0], lines or USUAL[1]

    def clear(self) -> None:
        self._console.control(Control.clear())

    def draw(self, lines: Sequence[Text]) -> None:
        """Every line anew, in one write, over what stood there."""
        width, height = self.size
        self._console.size = (width, height)
        page = [safe_text(line).copy() for line in lines[:height]] + [Text()] * (height - len(lines))
        for line in page:
            line.truncate(width, overflow="ellipsis", pad=True)
        with self._console:  # it writes when this ends
            self._console.control(Control.home())
            self._console.print(Text("\n").join(page), end="", no_wrap=True, crop=False, overflow="ignore")
