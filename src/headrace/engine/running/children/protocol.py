"""The messages between a worker and its child processes: frames of MessagePack, never a pickle.

Each message is about one assignment, and has its number.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.job_log import LogLine
from headrace.core.messages.message import State
from headrace.core.messages.outcome import Failure
from headrace.engine.declared.registry import Declaration

from .main_module import MainModule

#: The largest frame, in bytes. A header with a larger length is malformed.
FRAME_MOST = 1 << 30

_LENGTH = struct.Struct(">I")


class ChildSetting(msgspec.Struct, frozen=True):
    """The settings that a child starts with: its end of the connection, and where modules are found."""

    descriptor: int
    path: list[str]
    main: MainModule
    level: int  # of the worker's root logger


class ChildJob(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A job for a child: the message as it was claimed, and where the task's function is found."""

    number: int
    declaration: Declaration
    queue: str
    id: str
    body: bytes
    state: State
    timeout: float | None
    arguments: bytes | None  # as the middleware left them; None: those of the message


class Started(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The function begins: modules are loaded, and the lifespan is entered."""

    number: int


class Returned(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The function returned. Holds the encoded result, or why it could not be encoded."""

    number: int
    value: bytes | None
    note: str = ""


class Raised(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The function raised. `directive` names the outcome that it requested, `delay` the time until then."""

    number: int
    failure: Failure
    directive: str = ""  # "", RetryLater, Snooze or Unrecoverable
    delay: float = 0.0
    kinds: tuple[str, ...] = ()  # the names of the error's classes, for a retry policy


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """How far the function has come."""

    number: int
    fraction: float
    text: str = ""


class Logged(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The log lines since the last message, and how many were left out."""

    number: int
    lines: list[LogLine]
    dropped: int = 0


FromChild = Started | Returned | Raised | Progressed | Logged

_encoder = msgspec.msgpack.Encoder()
_from_child: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)
_to_child = msgspec.msgpack.Decoder(ChildJob)


def frame(message: ChildJob | FromChild) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes bytes as they arrive and returns whole messages. Raises `MalformedFrame` for other data."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[FromChild]:
        self._bytes += data
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > FRAME_MOST:
                raise MalformedFrame(f"a frame of {length:,} bytes")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield _decoded(body)


class MalformedFrame(Exception):
    """A child sent data that is not a message."""


def _decoded(body: bytes) -> FromChild:
    try:
        return _from_child.decode(body)
    except DECODE_ERRORS as error:
        raise MalformedFrame(str(error)) from error


def read_assignment(connection: socket.socket) -> ChildJob | None:
    """Wait for the next job; None when the worker is gone."""
    head = _read_exactly(connection, _LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(connection, _LENGTH.unpack(head)[0])
    return None if body is None else _to_child.decode(body)


def _read_exactly(connection: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
