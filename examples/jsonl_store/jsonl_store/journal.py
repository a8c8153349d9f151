"""The journal: a file of JSON lines, one for each step, and the state that comes of them.

A process that wants to make a step locks the file, reads what others have written, applies the step, and
writes its line in one piece. So every process makes the same steps in the same order. A line that a process
did not finish, because it was killed, is cut off by the next one: its step was never made.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from headrace.store import (
    BackendUnavailable,
    ChangesRefused,
    ControlMessage,
    RequestRefused,
    Stream,
    TimeSource,
)

from .state import StoreState
from .steps import Step, decode_line, encode_step

T = TypeVar("T")


class Journal:
    """`announce` and `ended` are called for what steps of any process announce and end."""

    def __init__(
        self,
        path: Path,
        clock: TimeSource,
        *,
        announce: Callable[[ControlMessage], None] = lambda message: None,
        ended: Callable[[Stream, str], None] = lambda stream, id: None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._announce, self._ended = announce, ended
        self._file: int | None = None
        self._told: list[Callable[[], None]] = []  # what the steps since the last line have to tell
        self._restart()

    def _restart(self) -> None:
        """Forget the state. It is read from the file again."""
        self._read_up_to = 0
        self._told.clear()
        self.state = StoreState(
            lambda message: self._told.append(lambda: self._announce(message)),
            lambda stream, id: self._told.append(lambda: self._ended(stream, id)),
        )

    def open(self) -> None:
        if self._file is None:
            with _as_unavailable(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._restart()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def has_news(self) -> bool:
        """Whether another process has written since this one looked."""
        return self._file is not None and os.fstat(self._file).st_size != self._read_up_to

    @contextmanager
    def locked(self) -> Iterator[int]:
        """No other process makes a step meanwhile, and the state is up to date. Gives the time."""
        if self._file is None:
            raise BackendUnavailable(f"the store {self.path} is not open")
        file = self._file
        with _as_unavailable(self.path):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            with _as_unavailable(self.path):
                self._read(file)
            yield self._clock.now_us()
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def make(self, step: Step[T]) -> T:
        """Make a step and write its line."""
        with self.locked() as now_us:
            if step.is_idle(self.state, now_us):
                return step.apply(self.state, now_us)
            try:
                line = encode_step(now_us, step)
                # What other processes will read is what is applied here, too.
                answer = cast(Step[T], decode_line(line).change).apply(self.state, now_us)
                self._write(line + b"\n")
            except BaseException as error:
                self._restart()  # the step is not in the file, and may be in the state, or a part of it
                if isinstance(error, msgspec.MsgspecError):
                    raise RequestRefused(f"this cannot be written as JSON: {error}") from error
                raise
            self._tell()
            return answer

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise ChangesRefused(f"{self.path} cannot be written: {error}") from error
        if written < len(line):  # the disk is full; the next one to read cuts it off
            raise ChangesRefused(f"{self.path} cannot be written: there is no room")
        self._read_up_to += len(line)

    def _read(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size < self._read_up_to:  # somebody emptied it
            self._restart()
        data = b""
        while self._read_up_to + len(data) < size:
            data += os.pread(file, size - len(data) - self._read_up_to, self._read_up_to + len(data))
        whole = data[: data.rfind(b"\n") + 1]
        for text in whole.splitlines():
            line = decode_line(text)
            line.change.apply(self.state, line.at_us)
            self._tell()
        self._read_up_to += len(whole)
        if len(whole) < len(data):
            os.ftruncate(file, self._read_up_to)

    def _tell(self) -> None:
        told, self._told = self._told, []
        for tell in told:
            tell()


@contextmanager
def _as_unavailable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(f"{path} cannot be used: {error}", transient=True) from error
