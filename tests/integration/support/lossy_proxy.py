"""A proxy between a client and a server that can lose what passes through it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

from tests.integration.support.resp import Cutter, words_of
from tests.support.listener import Listener
from tests.support.servers import HOST

#: Bytes read at once.
PIECE = 1 << 16


#: Whether the reply to this command is to be lost.
Choice = Callable[[list[bytes]], bool]


class Proxy:
    """Passes everything on, until a test says otherwise."""

    def __init__(self, server_port: int) -> None:
        self.lost = 0
        self.held = False
        self.delay = 0.0  #: seconds by which each piece is late
        self.piece = PIECE  #: bytes passed on at once
        self.choose: Choice | None = None
        self._lines: set[Line] = set()
        self._server_port = server_port
        self._to_lose = 0
        self._needle = b""
        self._is_cut = False
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        assert self._listener is not None
        return f"redis://{HOST}:{self._listener.port}/0"

    @property
    def standing(self) -> int:
        """How many connections lead to the server."""
        return len(self._lines)

    def lose_reply(self, to: bytes, times: int = 1) -> None:
        """Let the next request that holds these bytes pass, and lose its reply and the connection."""
        self._needle = to
        self._to_lose = times

    def cut(self) -> None:
        """End every connection, and accept no other until `mend`."""
        self._is_cut = True
        if self._listener is not None:
            self._listener.end_connections()

    def mend(self) -> None:
        self._is_cut = False

    def hold(self) -> None:
        """Pass nothing on any more, but keep the connections open: a black hole."""
        self.held = True

    def hold_standing(self) -> None:
        """Pass nothing on from the connections that are open now (half-open). New connections work."""
        for line in self._lines:
            line.held = True

    def release(self) -> None:
        """Let new connections through. Those that stood have lost some bytes and stay as they are."""
        self.hold_standing()
        self.held = False

    async def __aenter__(self) -> Proxy:
        self._listener = Listener(self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listener is not None
        await self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_cut:
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(HOST, self._server_port)
        line = Line(self)
        self._lines.add(line)
        there = asyncio.create_task(line.forward(reader, server_writer))
        back = asyncio.create_task(line.back(server_reader, writer))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lines.discard(line)
            for end in (writer, server_writer):
                end.transport.abort()
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    def is_to_lose(self, request: bytes) -> bool:
        if self._to_lose and self._needle in request:
            self._to_lose -= 1
            return True
        return False


class Line:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.held = False
        self._proxy = proxy
        self._losing = False
        self._requests = Cutter()
        self._replies = Cutter()
        self._asked: deque[bool] = deque()  # of each request without a reply: whether that is to be lost

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            self._losing = self._losing or self._proxy.is_to_lose(data)
            if self._proxy.choose is not None:
                self._asked += [self._proxy.choose(words_of(each)) for each in self._requests.feed(data)]
            await self._pass_on(data, writer)

    async def back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            if self._losing:
                self._proxy.lost += 1
                return
            if self._proxy.choose is None:
                await self._pass_on(data, writer)
                continue
            for reply in self._replies.feed(data):
                # What is pushed to a subscriber answers nothing.
                if self._asked and self._asked.popleft():
                    self._proxy.lost += 1
                    await writer.drain()
                    return
                await self._pass_on(reply, writer)

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self.held or self._proxy.held:
            return
        step = self._proxy.piece
        for start in range(0, len(data), step):
            if self._proxy.delay:
                await asyncio.sleep(self._proxy.delay)
            writer.write(data[start : start + step])
            await writer.drain()
            if step < PIECE:
                await asyncio.sleep(0)  # else the pieces would go together
