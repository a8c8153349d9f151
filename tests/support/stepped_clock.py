"""A clock of a real process that tests set: a small library, preloaded into the process, adds the seconds in
a file to the time. It needs a C compiler: libfaketime hangs in servers that have jemalloc."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("stepped_clock.c")

#: Why there is no such clock on this machine; empty: there is one.
MISSING: Final = "" if shutil.which("cc") else "no C compiler (cc) is installed"


class SteppedClock:
    """The clock of the processes that are started with its `environment`, or by a program that it `wraps`."""

    def __init__(self, folder: Path, name: str = "clock") -> None:
        self._folder = folder
        self._library, self._offset = folder / "clock.so", folder / f"{name}-offset"
        self.environment: dict[str, str] = {
            "LD_PRELOAD": str(self._library),
            "SERVER_CLOCK_OFFSET": str(self._offset),
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.set(0)
        if not self._library.exists():
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self._library, SOURCE], check=True)

    def another(self, name: str) -> SteppedClock:
        """A clock beside this one."""
        return SteppedClock(self._folder, name)

    @property
    def offset(self) -> int:
        """Seconds by which it is ahead of that of the machine."""
        return int(self._offset.read_text())

    def set(self, seconds: int) -> None:
        """In one write of the same length: a process reads the file at any time."""
        with os.fdopen(os.open(self._offset, os.O_WRONLY | os.O_CREAT, 0o644), "w") as file:
            file.write(f"{seconds:+010d}\n")

    def step(self, seconds: int) -> None:
        self.set(self.offset + seconds)

    def wrapped(self, program: Path) -> Path:
        """A program that is this one with this clock."""
        words = " ".join(f"{name}={value}" for name, value in self.environment.items())
        wrapper = self._folder / f"{program.name}-with-clock"
        wrapper.write_text(f'#!/bin/sh\nexport {words}\nexec {program} "$@"\n')
        wrapper.chmod(0o755)
        return wrapper
