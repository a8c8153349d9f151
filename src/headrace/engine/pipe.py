"""What a worker and its child processes say to each other: frames of MessagePack, never a pickle."""

from __future__ import annotations

import asyncio
import socket
import struct

import msgspec

from headrace.core.job_log import LogLine
from headrace.core.message import State
from headrace.core.outcome import Failure

from .main_module import MainModule

_LENGTH = struct.Struct(">I")


class ChildSetting(msgspec.Struct, frozen=True):
    """What a child is started with: its end of the connection, and where modules are found."""

    descriptor: int
    path: list[str]
    main: MainModule
    level: int  # of the worker's root logger


class Assignment(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A job for a child: the message as it was claimed, and where the task's function is found."""

    module: str
    task: str
    queue: str
    id: str
    body: bytes
    state: State
    timeout: float | None


class Returned(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The function came to its end; the encoded result, or why it could not be encoded."""

    value: bytes | None
    note: str = ""


class Raised(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The function raised. `directive` names what it asked for, `delay` when."""

    failure: Failure
    directive: str = ""  # "", RetryLater, Snooze or Unrecoverable
    delay: float = 0.0


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """How far the function has come."""

    fraction: float
    text: str = ""


class Logged(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What the function has written since the last time, and how many lines of it were left out."""

    lines: list[LogLine]
    dropped: int = 0


FromChild = Returned | Raised | Progressed | Logged

_encoder = msgspec.msgpack.Encoder()
_from_child: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)
_to_child = msgspec.msgpack.Decoder(Assignment)


def frame(message: Assignment | FromChild) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


async def read_from_child(reader: asyncio.StreamReader) -> FromChild:
    """The next message of a child; `IncompleteReadError` when it is gone."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return _from_child.decode(await reader.readexactly(length))


def read_assignment(connection: socket.socket) -> Assignment | None:
    """The next job, waited for; None when the worker is gone."""
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
