"""Script calls from a thread without an event loop, to one server or to the nodes of a cluster."""

from __future__ import annotations

import time
from typing import Any

from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable

from .address import Address, Place
from .connection import pack
from .faults import Redirection, error_of, is_error, leads_elsewhere, lost, redirection_of
from .queue import Call
from .slots import Slots
from .synchronous import SyncConnection

#: How often a call follows where it is sent to.
REDIRECTIONS = 5

#: Seconds for which a node that did not answer is not asked again: others wait behind it.
SHUNNED = 1.0


class SyncServer:
    """One server."""

    def __init__(self, connection: SyncConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    def run(self, call: Call) -> Any:
        reply = _ask(self._connection, call)
        if isinstance(reply, ReplyError):
            if leads_elsewhere(reply):
                self._connection.close()
            raise error_of(reply, self._name)
        return reply

    def close(self) -> None:
        self._connection.close()


class SyncNodes:
    """The nodes of a cluster, each on a connection of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._slots = Slots(address)
        self._connections: dict[Place, SyncConnection] = {}
        self._shunned: dict[Place, float] = {}

    def run(self, call: Call) -> Any:
        reply, redirection = self._send(call)
        attempts = 1
        while redirection is not None and not redirection.asks and attempts < REDIRECTIONS:
            self._slots.learn(redirection.slot, redirection.place)
            reply, redirection = self._send(call)
            attempts += 1
        if redirection is not None:
            raise lost(f"{self._address.title} is moving a queue to another node ({reply})")
        if isinstance(reply, ReplyError):
            self._slots.doubt()
            raise error_of(reply, self._address.title)
        return reply

    def _send(self, call: Call) -> tuple[Any, Redirection | None]:
        place = self._slots.owner_synchronously(call.slot)
        reply = self._ask(place, call)
        return reply, redirection_of(reply, place[0])

    def _ask(self, place: Place, call: Call) -> Any:
        if time.monotonic() < self._shunned.get(place, 0.0):
            self._slots.doubt()
            raise lost(f"the node at {place[0]}:{place[1]} did not answer just now")
        connection = self._connections.get(place)
        if connection is None:
            connection = self._connections[place] = SyncConnection(self._address.at(place))
        try:
            return _ask(connection, call)
        except BackendUnavailable:
            self._shunned[place] = time.monotonic() + SHUNNED
            self._slots.doubt()
            raise

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _ask(connection: SyncConnection, call: Call) -> Any:
    [reply] = connection.ask(call.packed)
    if is_error(reply, "NOSCRIPT"):
        load = pack((b"SCRIPT", b"LOAD", call.script.source))
        loaded, reply = connection.ask(load + call.packed, 2)
        reply = loaded if isinstance(loaded, ReplyError) else reply
    return reply
