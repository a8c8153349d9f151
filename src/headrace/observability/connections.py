"""The connections of a port. Their number is limited. A client with many loses its own first."""

from __future__ import annotations

import asyncio
from collections import Counter

from headrace.core.runtime.hosts import network_of


class Connections:
    """Keeps at most `most` connections. When all are taken, a new connection replaces one of the address that
    has the most: the one for which we have waited longest, or the oldest if we wait for none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._addresses: dict[asyncio.WriteTransport, str] = {}
        # In the order in which we began to wait.
        self._waiting: dict[asyncio.WriteTransport, None] = {}

    def open(self, connection: asyncio.WriteTransport) -> None:
        if len(self._addresses) >= self._most:
            self._make_room()
        peer = connection.get_extra_info("peername")
        self._addresses[connection] = network_of(peer[0] if peer else "")
        self.waits(connection)

    def waits(self, connection: asyncio.WriteTransport) -> None:
        """From now on we wait for the client to send or to read."""
        if connection in self._addresses:
            self._waiting.setdefault(connection)

    def works(self, connection: asyncio.WriteTransport) -> None:
        """From now on the client waits for us."""
        self._waiting.pop(connection, None)

    def close(self, connection: asyncio.WriteTransport) -> None:
        self._addresses.pop(connection, None)
        self.works(connection)

    def _make_room(self) -> None:
        [(crowd, _)] = Counter(self._addresses.values()).most_common(1)
        leaves = next(each for each in (*self._waiting, *self._addresses) if self._addresses[each] == crowd)
        self.close(leaves)
        leaves.abort()
