"""Keeps connections to a server: a protocol with many requests in flight, and a link that reconnects.

Replies come straight from hiredis, without decoding: bytes, integers, lists, and errors as values. Each
connection has one watchdog. A timer for each request would cost more than the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import random
import socket
import ssl
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import hiredis
import msgspec

from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.core.runtime.resolver import addresses_of
from headrace.core.values.credentials import Login
from headrace.stores.redis.server.faults import error_of, hangs_up, lost, unreachable, with_advice_on_tls

from .address import Address
from .handshake import check_handshake, handshake
from .login import login_to
from .open_connections import OpenConnections

Word = str | bytes | int

#: Packs one command in the form of the protocol. (The stub of hiredis says that a command has one word.)
pack = cast(Callable[[tuple[Word, ...]], bytes], hiredis.pack_command)

#: Seconds until a connection must be up, and until a request must be answered (plus the time it may block).
CONNECT_TIMEOUT = 3.0
REPLY_TIMEOUT = 5.0

#: Bytes per second. A long request may take longer at this rate; a slower connection counts as lost.
SLOWEST = 64 * 1024

#: Seconds before the next attempt to connect. They grow from the first value to the second, with full jitter.
RECONNECT_FIRST, RECONNECT_MOST = 0.05, 1.0

#: Seconds of extra time for a late answer. When the event loop was blocked, bytes that have arrived must be
#: read before the request can count as late.
SECOND_LOOK = 0.1

#: Idle seconds, seconds between probes, and probes. With these values the system notices within about ten
#: seconds that the other end of a connection has vanished.
KEEPALIVE = (5, 2, 2)

#: Kinds of messages that a subscription brings besides answers.
_ANNOUNCED = (b"message", b"pmessage", b"smessage")

#: Every link of this process, so that a forked child can drop the links that it inherited.
_links: weakref.WeakSet[Link] = weakref.WeakSet()

Greeting = Callable[["Wire"], Awaitable[None]]
Hearing = Callable[[Any], None]
Late = Callable[[list[Any] | None], None]


class Finder(Protocol):
    """Finds the current place of the server, for links whose server may change."""

    async def find(self) -> Address: ...

    def doubt(self) -> None:
        """Note that no connection could be made to the place, or that it was the wrong server."""


class ClientRequest(msgspec.Struct, eq=False):
    """A request that was sent and waits for this many replies until `deadline`."""

    future: asyncio.Future[list[Any]]
    count: int
    deadline: float
    late: Late | None
    replies: list[Any] = []


class Wire(asyncio.Protocol):
    """One connection. The server answers requests in the order in which they were sent."""

    def __init__(self, address: Address, server: str, hear: Hearing | None = None) -> None:
        self.address = address
        self.closed = False
        self.user: str | None = None  # None: the default user
        self.client_id = 0  # 0: the server does not tell
        self.replicas = 1  # how many must confirm a write, if the app asks for that
        self._server = server
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._requests: deque[ClientRequest] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._heard_at = 0.0  # when the last bytes came
        self._refusal: HeadraceError | None = None  # why the server closes the connection, if it says so
        self._ended = self._loop.create_future()

    def send(
        self, data: bytes, count: int = 1, patience: float = 0.0, late: Late | None = None
    ) -> asyncio.Future[list[Any]]:
        """Write packed commands; the future brings their replies, errors as values.

        A caller may stop waiting: the connection stays usable. Then `late` is called with the replies when
        they come, or with None when the connection ends before.
        """
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self.closed:
            future.set_exception(self._end_of(None, "is closed"))
            return future
        deadline = self._loop.time() + REPLY_TIMEOUT + patience + len(data) / SLOWEST
        self._requests.append(ClientRequest(future, count, deadline, late))
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(deadline, self._watch)
        self._transport.write(data)
        return future

    def close(self) -> None:
        self._fail("was closed")

    def abandon(self) -> None:
        """Forget the connection when its event loop is gone, or belongs to the parent process. Close nothing
        there and call no callbacks: the owner of the loop may still use it."""
        self.closed = True
        if self._loop.is_closed():
            with contextlib.suppress(Exception):  # not every kind of socket supports it
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async def ended(self, timeout: float | None = None) -> bool:
        """Wait until the connection is lost or closed; False: it is still up after this time."""
        return bool((await asyncio.wait([self._ended], timeout=timeout))[0])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._receive(reply)
        except hiredis.ProtocolError:
            self._fail("sent what is no answer")

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            self._refusal = unreachable(error, self._server)
        self._fail(f"was lost ({error})" if error else "was closed by the server")

    def _receive(self, reply: Any) -> None:
        if self._hear is not None and isinstance(reply, list) and reply and reply[0] in _ANNOUNCED:
            self._hear(reply)
            return
        if type(reply) is hiredis.ReplyError and hangs_up(reply):
            self._refusal = error_of(reply, self._server)
        if not self._requests:
            return
        request = self._requests[0]
        request.replies.append(reply)
        if len(request.replies) == request.count:
            self._requests.popleft()
            if not request.future.done():
                request.future.set_result(request.replies)
            elif request.late is not None:
                request.late(request.replies)

    def _watch(self, late: ClientRequest | None = None) -> None:
        self._watchdog = None
        if not self._requests:
            return
        first, now = self._requests[0], self._loop.time()
        # As long as bytes come, even slowly, they are part of this answer or of an earlier one.
        deadline = max(first.deadline, self._heard_at + REPLY_TIMEOUT)
        if now < deadline:
            self._watchdog = self._loop.call_at(deadline, self._watch)
        elif first is late:
            self._fail("did not answer in time")
        else:
            self._watchdog = self._loop.call_at(now + SECOND_LOOK, self._watch, first)

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
                request.future.set_exception(self._end_of(request, why))
            elif request.late is not None:
                request.late(None)
        self._requests.clear()

    def _end_of(self, request: ClientRequest | None, why: str) -> HeadraceError:
        error = copy.copy(self._refusal) or lost(f"the connection to {self._server} {why}")
        if isinstance(error, BackendUnavailable):
            error.uncertain = request is not None
        return error


class Link:
    """A path to the server that outlives its connections: each use reconnects if needed.

    `greet` is awaited on every new connection before any other use. A failed attempt raises its error in the
    caller; the next attempt first waits a little. With a `finder`, each attempt asks it for the place.
    """

    def __init__(
        self,
        address: Address,
        *,
        finder: Finder | None = None,
        greet: Greeting | None = None,
        hear: Hearing | None = None,
        life: OpenConnections | None = None,
    ) -> None:
        self._address = address
        self._finder = finder
        self._server = address.title
        self._greet = greet
        self._hear = hear
        self._life = life
        self._attempt: asyncio.Task[Wire] | None = None
        self._moves = 0
        self._failures = 0
        self._wire: Wire | None = None
        self._since = 0.0
        _links.add(self)

    async def ask(self, data: bytes, count: int = 1, patience: float = 0.0) -> list[Any]:
        """Send packed commands and wait for their replies; errors are values among them."""
        wire = self._wire
        if wire is None or wire.closed:
            wire = await self.connected()
        return await wire.send(data, count, patience)

    async def connected(self) -> Wire:
        """The connection; makes one if needed. Callers at the same time share one attempt."""
        wire = self.wire
        if wire is not None:
            return wire
        if self._life is not None:
            self._life.check(self._server)
        attempt, moves = self._attempt, self._moves
        if attempt is None:
            attempt = self._attempt = asyncio.get_running_loop().create_task(self._connect())
            attempt.add_done_callback(self._attempted)
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not attempt.cancelled() or (task and task.cancelling()):
                raise
            if self._moves == moves:
                raise lost(f"the connection to {self._server} was closed") from None
        except HeadraceError as error:
            raise copy.copy(error) from error
        return await self.connected()

    @property
    def wire(self) -> Wire | None:
        """The connection, if it is up."""
        return self._wire if self._wire and not self._wire.closed else None

    def drop(self) -> None:
        """Close the connection; the next use makes a new one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        if self._attempt is not None:
            self._attempt.cancel()

    def move(self) -> None:
        """Leave the old place: the server is at another one by now. Callers that wait for a connection get
        one to the new place, without another pause."""
        self._moves += 1
        self._failures = 0
        self.drop()
        self._attempt = None

    def renounce(self) -> None:
        """Close a connection to the wrong server, unless it was made just now."""
        if time.monotonic() - self._since > RECONNECT_MOST:
            self.drop()

    def abandon(self) -> None:
        """Forget the connection without closing it: see `Wire.abandon`."""
        wire, self._wire, self._attempt = self._wire, None, None
        if wire is not None:
            wire.abandon()

    def _attempted(self, attempt: asyncio.Task[Wire]) -> None:
        if self._attempt is attempt:
            self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # the callers that still wait get it; this marks it as retrieved

    async def _connect(self) -> Wire:
        if self._failures:
            most = min(RECONNECT_MOST, RECONNECT_FIRST * 2.0 ** min(self._failures, 10))
            await asyncio.sleep(random.uniform(0, most))  # nosec B311 # jitter
        wire: Wire | None = None
        try:
            address = await self._finder.find() if self._finder else self._address
            login = await login_to(address, self._server)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                wire = await self._open(address)
                await self._introduce(wire, login)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._failures += 1
                if self._finder is not None:
                    self._finder.doubt()
            if wire is not None:
                wire.close()
            if isinstance(error, OSError):  # a timeout is one
                raise self._advised(unreachable(error, self._server)) from error
            if isinstance(error, BackendUnavailable):
                error.uncertain = False  # the request of the caller was not sent
                self._advised(error)
            raise
        self._failures = 0
        self._wire, self._since = wire, time.monotonic()
        return wire

    def _advised(self, error: BackendUnavailable) -> BackendUnavailable:
        return with_advice_on_tls(error) if self._address.tls else error

    async def _open(self, address: Address) -> Wire:
        loop = asyncio.get_running_loop()

        def make() -> Wire:
            return Wire(address, self._server, self._hear)

        if address.path is not None:
            return (await loop.create_unix_connection(make, address.path))[1]
        tls = address.tls_context()
        name = address.host if tls else None
        refusals: list[OSError] = []
        for host in await addresses_of(address.host):
            try:
                opened = await loop.create_connection(make, host, address.port, ssl=tls, server_hostname=name)
                return opened[1]
            except OSError as error:
                refusals.append(error)
        raise refusals[0]

    async def _introduce(self, wire: Wire, login: Login | None) -> None:
        commands = handshake(wire.address, login)
        replies = await wire.send(b"".join(map(pack, commands)), len(commands))
        check_handshake(replies, self._server, asks_anew=wire.address.credentials is not None)
        wire.user = login[0] if login else None
        if isinstance(replies[-1], int):
            wire.client_id = replies[-1]
        if self._greet is not None:
            await self._greet(wire)


def keep_alive(connection: socket.socket | None) -> None:
    """Set the socket so that the system notices a dead connection and sends small requests at once."""
    if connection is None or connection.family == getattr(socket, "AF_UNIX", None):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle, interval, probes = KEEPALIVE
    # Not every system has all of these options.
    for name, value in (("TCP_KEEPIDLE", idle), ("TCP_KEEPINTVL", interval), ("TCP_KEEPCNT", probes)):
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _abandon_all() -> None:
    for link in list(_links):
        link.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
