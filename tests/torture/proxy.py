"""A proxy that understands the protocol of Redis or of PostgreSQL, between the fleet and its server.

It passes everything on until a fault says otherwise. A request and its reply belong together, also when
several requests are under way on one connection: so a fault can lose one reply, or answer in place of the
server.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final

from .dialogues import Dialogue
from .fleet import HOST, Listener

#: Bytes read at once.
PIECE: Final = 1 << 16

#: What becomes of a request. None: it passes. LOSE: its reply is lost, with the connection. Other bytes: it
#: does not reach the server, and this error is its reply.
LOSE: Final = b""
Verdict = bytes | None
Decide = Callable[[list[bytes]], Verdict]


class FaultyProxy:
    """Harms connections on request. `dialogue` knows the protocol of the server."""

    def __init__(self, server_port: int, dialogue: Callable[[], Dialogue]) -> None:
        self.delay = 0.0  #: seconds by which each piece is late
        self.piece = PIECE  #: bytes passed on at once
        self.decide: Decide | None = None
        self.swallows = False  #: whether everything vanishes, also what new connections bring
        self.refuses = False  #: whether new connections are closed at once
        self._connections: set[Connection] = set()
        self._server_port = server_port
        self._dialogue = dialogue
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None
        return self._listener.port

    def swallow_standing(self) -> None:
        """Half-open: the connections that stand pass nothing on any more, and do not end."""
        for connection in self._connections:
            connection.swallows = True

    def heal(self) -> None:
        """New connections work. Those that have lost bytes stay silent until their client gives up."""
        if self.swallows:
            self.swallow_standing()
        self.swallows = self.refuses = False
        self.delay, self.piece, self.decide = 0.0, PIECE, None

    def reset(self) -> None:
        """RST on every connection, to both ends."""
        for connection in list(self._connections):
            connection.reset()

    async def __aenter__(self) -> FaultyProxy:
        self._listener = Listener(self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        await self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            return
        server_reader, server_writer = await asyncio.open_connection(HOST, self._server_port)
        connection = Connection(self, self._dialogue(), writer, server_writer)
        self._connections.add(connection)
        ways = [
            asyncio.ensure_future(connection.forward(reader)),
            asyncio.ensure_future(connection.back(server_reader)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connections.discard(connection)
            for end in (writer, server_writer):
                end.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


class Connection:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: FaultyProxy,
        dialogue: Dialogue,
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
    ) -> None:
        self.swallows = False
        self._proxy = proxy
        self._dialogue = dialogue
        self._client = client
        self._server = server
        self._verdicts: deque[Verdict] = deque()  # of requests without a reply, in their order
        self._one_at_a_time = {client: asyncio.Lock(), server: asyncio.Lock()}

    async def forward(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE):
            for request in self._dialogue.requests(data):
                if request.answered and self._decided(request.words):
                    await self._answer_in_turn()
                else:
                    await self._pass_on(request.data, self._server)

    async def back(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE):
            for reply in self._dialogue.replies(data):
                if reply.answers and self._verdicts and self._verdicts.popleft() == LOSE:
                    return
                await self._pass_on(reply.data, self._client)
                await self._answer_in_turn()

    def reset(self) -> None:
        """An abort with nothing left to say sends RST when the socket does not linger."""
        for end in (self._client, self._server):
            raw: socket.socket | None = end.get_extra_info("socket")
            if raw is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()

    def _decided(self, words: list[bytes]) -> Verdict:
        verdict = self._proxy.decide(words) if self._proxy.decide else None
        self._verdicts.append(verdict)
        return verdict

    async def _answer_in_turn(self) -> None:
        """Answer in place of the server, as soon as the replies before have passed."""
        while self._verdicts and self._verdicts[0]:
            error = self._verdicts.popleft()
            assert error is not None
            await self._pass_on(self._dialogue.error(error), self._client)

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        # Both ways write to the client: one waits until all pieces of the other have gone.
        async with self._one_at_a_time[writer]:
            proxy = self._proxy
            if self.swallows or proxy.swallows:
                return
            start = 0
            while start < len(data):
                if proxy.delay:
                    await asyncio.sleep(proxy.delay)
                # When the fault ends, the rest goes at once.
                end = len(data) if proxy.piece == PIECE else start + proxy.piece
                writer.write(data[start:end])
                await writer.drain()
                start = end
                if start < len(data):
                    await asyncio.sleep(0)  # else the pieces would go together
