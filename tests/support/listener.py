"""A listening socket for tests that stand between a client and a server.

`asyncio.start_server` leaks the connections that it has accepted but not handed over when it is closed. Here
each connection has a task from the moment it is accepted, and `close` ends them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tests.support.servers import HOST

#: Serves one connection. The connection ends when it returns or is cancelled.
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Listens on a free port of the loopback, on the event loop that runs when it is made."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = socket.create_server((HOST, 0), backlog=100)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def end_connections(self) -> None:
        for task in self._tasks:
            if not task.cancelling():  # a second time it would not wait for its ends
                task.cancel()

    async def close(self) -> None:
        """Accept no more, end every connection and wait until all are closed."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self.end_connections()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return  # the caller has gone already
        connection.setblocking(False)
        task = self._loop.create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before it begins closes nothing.
        task.add_done_callback(lambda _: connection.close())

    async def _run(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            with contextlib.suppress(OSError):  # one side is away
                await self._serve(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
