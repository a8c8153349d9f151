"""Real commands on a real (pseudo-)terminal, for tests that type and look."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.programs.recording_app import LOG, STORE
from tests.integration.support.worker_processes import ROOT, Workshop
from tests.support.waiting import wait_until

#: What steers a terminal and is not to be read.
_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def environment(workshop: Workshop) -> dict[str, str]:
    return {**os.environ, STORE: workshop.url, LOG: str(workshop.log.path), "TERM": "xterm"}


class Screen:
    """A command on a terminal, and what stands there."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.raw = ""
        self._read_up_to = 0
        self._terminal = terminal
        os.set_blocking(terminal, False)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        resize(self._terminal, columns, lines)

    @property
    def attributes(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._terminal)

    async def shows(self, text: str) -> None:
        """Wait until the text has appeared since the last one."""
        await wait_until(
            lambda: self._found(text),
            timeout=20,
            message=lambda: f"{text!r} on the screen:\n{self.text[-4000:]}",
        )

    @property
    def text(self) -> str:
        """What was written since the text that was last waited for."""
        self._read()
        return _CODES.sub("", self.raw[self._read_up_to :])

    def exit_code(self) -> int:
        """Wait for its end; what it wrote at last is read too."""
        code = self.process.wait(20)
        self._read()
        return code

    def _found(self, text: str) -> bool:
        self._read()
        for found in re.finditer(_pattern(text), self.raw[self._read_up_to :]):
            self._read_up_to += found.end()
            return True
        return False

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 65536):
                self.raw += data.decode(errors="replace")
        except OSError:
            pass  # nothing more for now, or the command has ended


@contextmanager
def on_terminal(
    workshop: Workshop,
    *words: str,
    command: list[str] | None = None,
    size: tuple[int, int] = (80, 24),
    folder: Path = ROOT,
) -> Iterator[Screen]:
    """`headrace` with these words, or another command, on a terminal of its own."""
    ours, its = pty.openpty()
    resize(its, *size)
    process = subprocess.Popen(
        command or [sys.executable, "-m", "headrace", *words],
        cwd=folder,
        env=environment(workshop),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    try:
        yield Screen(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(its)
        os.close(ours)


def resize(terminal: int, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _take_terminal() -> None:
    """Make it the one that Ctrl-C and a change of its size are told of."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _pattern(text: str) -> str:
    """The text, with codes between any two of its characters."""
    return r"(?:\x1b\[[0-?]*[ -/]*[@-~])*".join(map(re.escape, text))
