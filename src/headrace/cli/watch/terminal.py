"""The terminal: a screen of our own, and keys one by one."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

from headrace.cli.output.render import is_terminal

_KEY: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~])|\x1b(?=[^\[O])|[^\x1b]", re.DOTALL)
_NAMED: Final = {
    **{f"{prefix}A": "up" for prefix in "[O"},
    **{f"{prefix}B": "down" for prefix in "[O"},
    **dict.fromkeys(("[H", "OH", "[1~", "[7~"), "home"),
    **dict.fromkeys(("[F", "OF", "[4~", "[8~"), "end"),
    "[5~": "page up",
    "[6~": "page down",
}


class Terminal:
    """`with terminal.entered(): terminal.draw(...)`. It is given back as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        # Where keys are read from. On Windows there are none; Ctrl-C ends it.
        has_keys = sys.platform != "win32" and is_terminal("stdin")
        self.keys = sys.stdin.fileno() if has_keys else None

    @contextmanager
    def entered(self) -> Iterator[None]:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # for a terminal that is not UTF-8
        with nullcontext() if self.keys is None else _single_keys():
            try:
                self._live.start()
                yield
            finally:
                with suppress(OSError):  # the terminal is gone
                    self._live.stop()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines now. rich would believe COLUMNS and LINES, which do not follow a change."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            return 80, 24
        return columns or 80, lines or 24

    def draw(self, view: RenderableType) -> None:
        self._console.size = self.size
        self._live.update(view, refresh=True)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Have the terminal pass on each key at once, and not show it."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    # Without a flush: the user may have typed already.
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    try:
        yield
    finally:
        with suppress(termios.error):
            # With a flush: further keys are not for the shell.
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


class Keyboard:
    """Keys from the bytes that a terminal sends. They may come in any pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete now; unknown ones are left out."""
        text, at, keys = self.rest + self._decoder.decode(data), 0, []
        while found := _KEY.match(text, at):
            at = found.end()
            name = "escape" if found[0] == "\x1b" else "enter" if found[0] in "\r\n" else found[0]
            keys.append(_NAMED.get(found[1], "") if found[1] else name)
        self.rest = text[at:]
        return [key for key in keys if key]

    def flush(self) -> list[str]:
        """Nothing has followed: an escape was the key Esc."""
        rest, self.rest = self.rest, ""
        return ["escape"] if rest == "\x1b" else []
