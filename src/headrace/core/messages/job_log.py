"""The latest log lines of a job's attempts, in bounded number and size, if the app keeps them.

They are in the message's `State`. So they live as long as the message or its end record, are written together
with it, and need no place of their own in a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import datetime_of
from headrace.core.values.bounds import Count, MomentUs

#: Bytes that are kept of one line, and of all lines of a message together.
LINE_BYTES: Final = 2 * 1024
LOG_BYTES: Final = 32 * 1024

#: More lines than this are never kept, however short they are.
LINES_MOST: Final = 1000

#: Bytes of a line in addition to its text: the attempt, the time, the level.
_BESIDE: Final = 24


class LogLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a handler wrote through `logging`: in which attempt, when on the store's clock, how serious."""

    attempt: Count
    at_us: MomentUs
    level: str
    text: str

    @property
    def at(self) -> datetime:
        return datetime_of(self.at_us)

    @property
    def size(self) -> int:
        """Roughly the bytes that the line takes in a store."""
        text = self.text
        return _BESIDE + (len(text) if text.isascii() else len(text.encode()))


class JobLog(msgspec.Struct, frozen=True, array_like=True):
    """The latest lines, and how many before them were left out."""

    lines: tuple[LogLine, ...] = ()
    dropped: Count = 0

    def then(self, later: JobLog, most: int = LINES_MOST) -> JobLog:
        """This log followed by a later one, within the bounds."""
        if not (later.lines or later.dropped):
            return self
        lines = (*self.lines, *later.lines)
        kept = _latest(lines, most)
        return JobLog(kept, self.dropped + later.dropped + len(lines) - len(kept))

    @property
    def size(self) -> int:
        return sum(line.size for line in self.lines)


NO_LOG: Final = JobLog()


def checked_lines(value: object) -> int:
    """The value of `App(job_logs=…)`: how many lines are kept of each job; 0: none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LINES_MOST:
        return value
    raise ConfigurationError(
        f"job_logs is how many log lines are kept of each job, from 0 to {LINES_MOST:,}, not {value!r}"
    )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JobLog)


def encode_log(log: JobLog) -> bytes:
    """The bytes that a store keeps for the log of a current run; empty for no log."""
    return b"" if log is NO_LOG else _encoder.encode(log)


def decode_log(data: bytes | None) -> JobLog:
    """The stored log; an empty one for bytes that are no log, so that the message can still be used."""
    try:
        return _decoder.decode(data) if data else NO_LOG
    except DECODE_ERRORS:
        return NO_LOG


def _latest(lines: Iterable[LogLine], most: int) -> tuple[LogLine, ...]:
    kept: list[LogLine] = []
    room = LOG_BYTES
    for line in reversed(tuple(lines)):
        room -= line.size
        if room < 0 or len(kept) == most:
            break
        kept.append(line)
    return tuple(reversed(kept))
