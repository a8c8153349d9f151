"""Connections to one server: a protocol that keeps many requests in flight, and a link that connects anew.

Replies come straight from hiredis, without decoding: bytes, integers, lists, and errors as values. One
watchdog for a connection stands in for a timer for each request, which would cost more than the request.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import hiredis

from headrace.core.errors import BackendUnavailable

from .address import Address
from .replies import error_of

Word = str | bytes | int

#: One command in the protocol's form. (The stub of hiredis says that a command has one word.)
pack = cast(Callable[[tuple[Word, ...]], bytes], hiredis.pack_command)

#: Seconds until a connection must stand, and until a request must be answered (on top of what it may block).
CONNECT_TIMEOUT = 3.0
REPLY_TIMEOUT = 5.0

#: Seconds before the next attempt to connect grow from the first to the second, with full jitter.
RECONNECT_FIRST, RECONNECT_MOST = 0.05, 1.0

#: A connection whose other end is gone without a word is noticed within about ten seconds:
#: idle seconds, seconds between probes, probes.
KEEPALIVE = (5, 2, 2)

Greeting = Callable[["Wire"], Awaitable[None]]
Hearing = Callable[[Any], None]


class Request:
    """What was sent and waits for this many replies until `deadline`."""

    __slots__ = ("count", "deadline", "future", "replies")

    def __init__(self, future: asyncio.Future[list[Any]], count: int, deadline: float) -> None:
        self.future = future
        self.count = count
        self.deadline = deadline
        self.replies: list[Any] = []


class Wire(asyncio.Protocol):
    """One connection. Requests are answered in the order in which they were sent."""

    def __init__(self, server: str, hear: Hearing | None = None) -> None:
        self.closed = False
        self.client_id = 0  # 0: the server does not tell
        self._server = server
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._requests: deque[Request] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._ended = self._loop.create_future()

    def send(self, data: bytes, count: int = 1, patience: float = 0.0) -> asyncio.Future[list[Any]]:
        """Write packed commands; the future brings their replies, errors as values.

        Whoever stops waiting for it leaves the connection in order.
        """
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self.closed:
            future.set_exception(_lost(f"the connection to {self._server} is closed"))
            return future
        deadline = self._loop.time() + REPLY_TIMEOUT + patience
        self._requests.append(Request(future, count, deadline))
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(deadline, self._watch)
        self._transport.write(data)
        return future

    def close(self) -> None:
        self._fail("was closed")

    async def ended(self) -> None:
        """Wait until the connection is lost or closed."""
        await asyncio.shield(self._ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._receive(reply)
        except hiredis.ProtocolError:
            self._fail("sent what is no answer")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"was lost ({error})" if error else "was closed by the server")

    def _receive(self, reply: Any) -> None:
        if not self._requests:
            if self._hear is not None:
                self._hear(reply)
            return
        request = self._requests[0]
        request.replies.append(reply)
        if len(request.replies) == request.count:
            self._requests.popleft()
            if not request.future.done():
                request.future.set_result(request.replies)

    def _watch(self) -> None:
        self._watchdog = None
        if not self._requests:
            return
        deadline = self._requests[0].deadline
        if self._loop.time() >= deadline:
            self._fail("did not answer in time")
        else:
            self._watchdog = self._loop.call_at(deadline, self._watch)

    def _fail(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._transport.abort()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if not self._ended.done():
            self._ended.set_result(None)
        for request in self._requests:
            if not request.future.done():
                error = _lost(f"the connection to {self._server} {why}", uncertain=True)
                request.future.set_exception(error)
        self._requests.clear()


class Link:
    """A way to the server that outlives its connections: each use connects anew if need be.

    `greet` is awaited on every new connection before anybody else may use it. An attempt that fails is the
    caller's error; the next one first waits a little.
    """

    def __init__(
        self, address: Address, *, greet: Greeting | None = None, hear: Hearing | None = None
    ) -> None:
        self._address = address
        self._server = f"the server at {address}"
        self._greet = greet
        self._hear = hear
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._wire: Wire | None = None

    async def ask(self, data: bytes, count: int = 1, patience: float = 0.0) -> list[Any]:
        """Send packed commands and wait for their replies; errors are values among them."""
        wire = self._wire
        if wire is None or wire.closed:
            wire = await self.connected()
        return await wire.send(data, count, patience)

    async def connected(self) -> Wire:
        async with self._connecting:
            if self._wire is None or self._wire.closed:
                self._wire = await self._connect()
            return self._wire

    @property
    def wire(self) -> Wire | None:
        """The connection as it stands, if it does."""
        return self._wire if self._wire and not self._wire.closed else None

    def drop(self) -> None:
        """Close the connection; the next use makes another."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    async def _connect(self) -> Wire:
        if self._failures:
            most = min(RECONNECT_MOST, RECONNECT_FIRST * 2.0**self._failures)
            await asyncio.sleep(random.uniform(0, most))
        wire: Wire | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                wire = await self._open()
                await self._introduce(wire)
        except BaseException as error:
            self._failures += 1
            if wire is not None:
                wire.close()
            if isinstance(error, OSError):  # a timeout is one
                why = str(error) or "it does not answer"
                raise _lost(f"{self._server} cannot be reached: {why}") from error
            if isinstance(error, BackendUnavailable):
                error.uncertain = False  # whatever the caller wanted was not sent
            raise
        self._failures = 0
        return wire

    async def _open(self) -> Wire:
        loop = asyncio.get_running_loop()
        address = self._address

        def make() -> Wire:
            return Wire(self._server, self._hear)

        if address.path is not None:
            return (await loop.create_unix_connection(make, address.path))[1]
        connected = await loop.create_connection(make, address.host, address.port, ssl=address.tls_context())
        return connected[1]

    async def _introduce(self, wire: Wire) -> None:
        commands = handshake(self._address)
        replies = await wire.send(b"".join(map(pack, commands)), len(commands))
        check_handshake(replies, self._server)
        if isinstance(replies[-1], int):
            wire.client_id = replies[-1]
        if self._greet is not None:
            await self._greet(wire)


def handshake(address: Address) -> list[tuple[Word, ...]]:
    """The first commands on a connection; the last answers the client's id."""
    commands: list[tuple[Word, ...]] = []
    if address.password:
        user = (address.username,) if address.username else ()
        commands.append(("AUTH", *user, address.password))
    if address.database:
        commands.append(("SELECT", address.database))
    commands += [("CLIENT", "SETNAME", "headrace"), ("CLIENT", "ID")]
    return commands


def check_handshake(replies: list[Any], server: str) -> None:
    """A user who may not name a connection or ask for its id can still work."""
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError) and not str(reply).startswith("NOPERM"):
            raise error_of(reply, server)


class SyncConnection:
    """The same for a thread without an event loop: one request at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._server = f"the server at {address}"
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()

    def ask(self, data: bytes, count: int = 1) -> list[Any]:
        sent = False
        try:
            connection = self._socket or self._connect()
            sent = True
            connection.sendall(data)
            return self._read(connection, count)
        except OSError as error:
            self.close()
            raise _lost(f"{self._server} does not answer: {error}", uncertain=sent) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _connect(self) -> socket.socket:
        connection = self._open()
        connection.settimeout(REPLY_TIMEOUT)
        self._socket, self._reader = connection, hiredis.Reader()
        _keep_alive(connection)
        commands = handshake(self._address)
        connection.sendall(b"".join(map(pack, commands)))
        check_handshake(self._read(connection, len(commands)), self._server)
        return connection

    def _open(self) -> socket.socket:
        address = self._address
        if address.path is not None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(CONNECT_TIMEOUT)
            connection.connect(address.path)
            return connection
        plain = socket.create_connection((address.host, address.port), CONNECT_TIMEOUT)
        context = address.tls_context()
        return context.wrap_socket(plain, server_hostname=address.host) if context else plain

    def _read(self, connection: socket.socket, count: int) -> list[Any]:
        # Each part of an answer may take the time-out, but the whole must come before this.
        deadline = time.monotonic() + REPLY_TIMEOUT
        replies: list[Any] = []
        while len(replies) < count:
            reply = self._reader.gets()
            if reply is not False:
                replies.append(reply)
                continue
            if time.monotonic() > deadline:
                raise TimeoutError("it takes too long")
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._reader.feed(data)
        return replies


def _lost(message: str, *, uncertain: bool = False) -> BackendUnavailable:
    return BackendUnavailable(message, uncertain=uncertain, transient=True)


def _keep_alive(connection: socket.socket | None) -> None:
    if connection is None or connection.family == getattr(socket, "AF_UNIX", None):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle, interval, probes = KEEPALIVE
    # Not every system has all of them.
    for name, value in (("TCP_KEEPIDLE", idle), ("TCP_KEEPINTVL", interval), ("TCP_KEEPCNT", probes)):
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
