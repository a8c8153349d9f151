"""A connection for a thread without an event loop: one request at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import hiredis

from . import connection
from .address import Address, Place
from .connection import keep_alive, pack
from .faults import error_of, hangs_up, lost, unreachable
from .handshake import check_handshake, handshake


class SyncConnection:
    """Connects when it is first used, and again after any trouble. A forked child makes its own.

    Where a server is not always the same, `find` says which it is now. `patience`: seconds to connect, and
    for an answer, where others may be asked instead.
    """

    def __init__(
        self,
        address: Address,
        *,
        find: Callable[[], Address] | None = None,
        patience: float | None = None,
    ) -> None:
        self._address = address
        self._find = find
        self._patience = patience
        self._server = address.title
        self._socket: socket.socket | None = None
        self._place: Place | None = None
        self._stale = False
        self._process = 0
        self._reader = hiredis.Reader()

    def ask(self, data: bytes, count: int = 1) -> list[Any]:
        if self._stale or self._process != os.getpid():
            self.close()  # a copy of the parent's: to close it here ends nothing there
        peer = self._socket or self._connected()
        try:
            peer.sendall(data)
            return self._read(peer, count)
        except OSError as error:
            self.close()
            raise lost(f"{self._server} does not answer: {error}", uncertain=True) from error
        except BaseException:
            self.close()
            raise

    def move(self, place: Place) -> None:
        """The server is there now: leave where it was. Another thread may say so, so nothing is closed that
        this one may be waiting for: it finds the end of it."""
        if self._place != place:
            self._stale = True
            peer = self._socket
            if peer is not None:
                with contextlib.suppress(OSError):  # it was closed by now
                    socket.socket.shutdown(peer, socket.SHUT_RDWR)  # TLS would forget its keys first

    def close(self) -> None:
        peer, self._socket = self._socket, None
        if peer is not None:
            peer.close()

    def _connected(self) -> socket.socket:
        try:
            return self._connect()
        except OSError as error:
            self.close()
            raise unreachable(error, self._server) from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        self._stale = False  # first: what was found may be old before it is used
        address = self._find() if self._find else self._address
        self._place = (address.host, address.port)
        peer = self._socket = self._open(address)
        self._process, self._reader = os.getpid(), hiredis.Reader()
        peer.settimeout(self._patience or connection.REPLY_TIMEOUT)
        keep_alive(peer)
        commands = handshake(address)
        peer.sendall(b"".join(map(pack, commands)))
        check_handshake(self._read(peer, len(commands)), self._server)
        return peer

    def _open(self, address: Address) -> socket.socket:
        if address.path is not None:
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            peer.settimeout(self._patience or connection.CONNECT_TIMEOUT)
            peer.connect(address.path)
            return peer
        patience = self._patience or connection.CONNECT_TIMEOUT
        plain = socket.create_connection((address.host, address.port), patience)
        context = address.tls_context()
        return context.wrap_socket(plain, server_hostname=address.host) if context else plain

    def _read(self, peer: socket.socket, count: int) -> list[Any]:
        # Each part of an answer may take the time-out, but the whole must come before this.
        deadline = time.monotonic() + (self._patience or connection.REPLY_TIMEOUT)
        replies: list[Any] = []
        while len(replies) < count:
            reply = self._reader.gets()
            if reply is not False:
                replies.append(reply)
                continue
            if time.monotonic() > deadline:
                raise TimeoutError("it takes too long")
            data = peer.recv(65536)
            if not data:
                self._check_farewell(replies)
                raise ConnectionResetError("it closed the connection")
            self._reader.feed(data)
        return replies

    def _check_farewell(self, replies: list[Any]) -> None:
        """Some servers say why they hang up."""
        for reply in replies:
            if hangs_up(reply):
                raise error_of(reply, self._server)
