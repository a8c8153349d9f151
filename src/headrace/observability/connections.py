"""The connections of a port: only so many, and none that says nothing keeps a visitor out."""

from __future__ import annotations

import asyncio
from collections import Counter

from headrace.core.hosts import network_of


class Connections:
    """At most so many. Where all are taken, one that keeps us waiting makes room for a newcomer: the oldest
    of the address that has the most of these. So who opens many gets in his own way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[asyncio.BaseTransport] = set()
        # In the order in which we began to wait, with the address.
        self._waiting: dict[asyncio.WriteTransport, str] = {}

    def open(self, connection: asyncio.WriteTransport) -> None:
        self._open.add(connection)
        self.waits(connection)
        if len(self._open) > self._most:
            self._make_room()

    def waits(self, connection: asyncio.WriteTransport) -> None:
        """From now on it is the other side's turn, to send or to read."""
        if connection in self._open and connection not in self._waiting:
            peer = connection.get_extra_info("peername")
            self._waiting[connection] = network_of(peer[0] if peer else "")

    def works(self, connection: asyncio.WriteTransport) -> None:
        """From now on it is our turn."""
        self._waiting.pop(connection, None)

    def close(self, connection: asyncio.WriteTransport) -> None:
        self._open.discard(connection)
        self.works(connection)

    def _make_room(self) -> None:
        [(crowd, _)] = Counter(self._waiting.values()).most_common(1)
        oldest = next(each for each, address in self._waiting.items() if address == crowd)
        self.close(oldest)
        oldest.abort()
