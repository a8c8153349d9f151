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
    """`announce` and `ended` are called for what steps of any process announce and end, `changed` when other
    processes have made steps."""

    def __init__(
        self,
        path: Path,
        clock: TimeSource,
        *,
        announce: Callable[[ControlMessage], None] = lambda message: None,
        ended: Callable[[Stream, str], None] = lambda stream, id: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._announce, self._ended, self._changed = announce, ended, changed
        self._file: int | None = None
        self._told_up_to = 0  # announcements of earlier lines were made, or are too old
        self._restart()

    def _restart(self) -> None:
        """Forget the state. The next step reads the file from its beginning."""
        self._read_up_to = 0
        self._to_tell: list[Callable[[], None]] = []
        self.state = StoreState(
            lambda message: self._to_tell.append(lambda: self._announce(message)),
            lambda stream, id: self._to_tell.append(lambda: self._ended(stream, id)),
        )

    def open(self) -> None:
        if self._file is None:
            with _as_unavailable(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._told_up_to = os.fstat(self._file).st_size
            self._restart()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def check_open(self) -> int:
        if self._file is None:
            raise BackendUnavailable(f"{self.path} is not open")
        return self._file

    def catch_up(self) -> None:
        """Read what other processes have written, if anything."""
        if os.fstat(self.check_open()).st_size != self._read_up_to:
            with self.locked():
                pass

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the file: no other process makes a step, and the state is up to date. Gives the time."""
        file = self.check_open()
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
            with _refused_if_unwritable():
                line = encode_step(now_us, step)
                # What other processes read is also what is applied here.
                read_back = cast(Step[T], decode_line(line).change)
            try:
                answer = read_back.apply(self.state, now_us)
                self._write(line + b"\n")
            except BaseException:
                self._restart()  # the step is not in the file, and may be in the state, or a part of it
                raise
            self._tell()
            return answer

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise ChangesRefused(f"{self.path} cannot be written: {error}") from error
        if written < len(line):  # the next process that reads cuts it off
            raise ChangesRefused(f"{self.path} cannot be written: there is no room left")
        self._read_up_to += len(line)

    def _read(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size < self._read_up_to:  # the file was emptied
            self._told_up_to = 0
            self._restart()
        *lines, unfinished = _read_from(file, self._read_up_to, size).split(b"\n")
        for line in lines:
            self._apply(line)
        if unfinished:
            os.ftruncate(file, self._read_up_to)
        if lines:
            self._changed()

    def _apply(self, text: bytes) -> None:
        try:
            line = decode_line(text)
            line.change.apply(self.state, line.at_us)
        except Exception as error:
            at = self._read_up_to
            self._restart()
            raise BackendUnavailable(f"{self.path} cannot be read at byte {at:,}: {error}") from error
        self._read_up_to += len(text) + 1
        self._tell()

    def _tell(self) -> None:
        told, self._to_tell = self._to_tell, []
        if self._read_up_to > self._told_up_to:
            self._told_up_to = self._read_up_to
            for tell in told:
                tell()


@contextmanager
def _refused_if_unwritable() -> Iterator[None]:
    """What cannot be written as a line, or not be read again, is refused before anything is changed."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise RequestRefused(f"this cannot be written as JSON: {error}") from error


def _read_from(file: int, start: int, end: int) -> bytes:
    data = b""
    while start + len(data) < end:
        data += os.pread(file, end - start - len(data), start + len(data))
    return data


@contextmanager
def _as_unavailable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(f"{path} cannot be used: {error}", transient=True) from error
