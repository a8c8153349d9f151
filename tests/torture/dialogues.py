"""What a proxy must know of a protocol: where a request and a reply end, and how a server says an error."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from .fleet import Cutter, words_of

#: The words of the request that opens a connection to PostgreSQL.
STARTUP = b"STARTUP"

#: The length and the code of the first message of a connection to PostgreSQL.
_STARTUP_HEAD = 8
_CANCEL_CODE = 80877102

#: After these messages of a client PostgreSQL answers: Query and Sync.
_ENDS_REQUEST = (b"Q", b"S")

#: Messages that PostgreSQL may send unasked: notifications, notices, changed settings.
_UNASKED = (b"A", b"N", b"S")


class Request(NamedTuple):
    """`words` say what is asked for. `answered`: one reply belongs to it."""

    data: bytes
    words: list[bytes]
    answered: bool = True


class Reply(NamedTuple):
    """`answers`: it belongs to a request."""

    data: bytes
    answers: bool = True


class Dialogue(Protocol):
    """One connection: what has arrived of the next request and the next reply."""

    def requests(self, data: bytes) -> Iterator[Request]: ...

    def replies(self, data: bytes) -> Iterator[Reply]: ...

    def error(self, error: bytes) -> bytes:
        """The reply that says this error, in place of the server."""
        ...


class RedisDialogue:
    """An error is the line that a server would send."""

    def __init__(self) -> None:
        self._requests = Cutter()
        self._replies = Cutter()
        self._listens = False  # subscribed: what comes from the server answers nothing

    def requests(self, data: bytes) -> Iterator[Request]:
        for request in self._requests.feed(data):
            words = words_of(request)
            self._listens = self._listens or words[0].upper().endswith(b"SUBSCRIBE")
            yield Request(request, words, answered=not self._listens)

    def replies(self, data: bytes) -> Iterator[Reply]:
        return (Reply(reply) for reply in self._replies.feed(data))

    def error(self, error: bytes) -> bytes:
        return error


class PostgresDialogue:
    """The words of a request are its SQL, also when it is prepared. An error is an SQLSTATE."""

    def __init__(self) -> None:
        self._is_open = False
        self._status = b"I"  # outside of a transaction
        self._asked = self._answered = b""  # messages without their end
        self._request: list[bytes] = []
        self._reply: list[bytes] = []
        self._prepared: dict[bytes, bytes] = {}

    def requests(self, data: bytes) -> Iterator[Request]:
        self._asked += data
        while (message := self._next_asked()) is not None:
            self._request.append(message)
            if not self._is_open:
                self._is_open = True
                yield self._whole(STARTUP, answered=not _is_cancellation(message))
            elif message[:1] == b"X":
                yield self._whole(b"TERMINATE", answered=False)
            elif message[:1] in _ENDS_REQUEST:
                yield self._whole(self._sql())

    def replies(self, data: bytes) -> Iterator[Reply]:
        self._answered += data
        while (message := _typed(self._answered)) is not None:
            self._answered = self._answered[len(message) :]
            if message[:1] in _UNASKED and not self._reply:
                yield Reply(message, answers=False)
                continue
            self._reply.append(message)
            if message[:1] == b"Z":
                self._status = message[-1:]
            if message[:1] == b"Z" or _is_fatal(message):
                reply, self._reply = b"".join(self._reply), []
                yield Reply(reply)

    def error(self, error: bytes) -> bytes:
        """A transaction can only be rolled back after an error."""
        fields = b"SERROR\0VERROR\0C%b\0Mas a fault wants it\0\0" % error
        status = b"I" if self._status == b"I" else b"E"
        return _message(b"E", fields) + _message(b"Z", status)

    def _whole(self, words: bytes, *, answered: bool = True) -> Request:
        request, self._request = b"".join(self._request), []
        return Request(request, [words], answered)

    def _next_asked(self) -> bytes | None:
        message = _typed(self._asked) if self._is_open else _counted(self._asked, 0)
        if message is not None:
            self._asked = self._asked[len(message) :]
        return message

    def _sql(self) -> bytes:
        """What is prepared, run, or both."""
        sql = b""
        for message in self._request:
            body = message[5:]
            if message[:1] == b"Q":
                sql = body.rstrip(b"\0")
            elif message[:1] == b"P":
                name, sql = body.split(b"\0", 2)[:2]
                self._prepared[name] = sql
            elif message[:1] == b"B":
                sql = self._prepared.get(body.split(b"\0", 2)[1], b"")
        return sql


def _typed(data: bytes) -> bytes | None:
    """The first message of these bytes; None: not all of it is there."""
    return _counted(data, 1)


def _counted(data: bytes, head: int) -> bytes | None:
    """A message whose length, which counts itself, is behind `head` bytes."""
    if len(data) < head + 4:
        return None
    length = head + int(struct.unpack_from("!i", data, head)[0])
    return data[:length] if len(data) >= length else None


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _is_cancellation(message: bytes) -> bool:
    return len(message) >= _STARTUP_HEAD and struct.unpack_from("!i", message, 4)[0] == _CANCEL_CODE


def _is_fatal(message: bytes) -> bool:
    """After such an error the server closes the connection, and says nothing more."""
    return message[:1] == b"E" and (b"SFATAL\0" in message or b"SPANIC\0" in message)
