"""A proxy between a store and PostgreSQL that breaks a connection at a chosen statement."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Final

from .listener import Listener
from .postgres_server import HOST, USER, PostgresServer

PIECE: Final = 1 << 16


class BreakingProxy:
    """`lose_answer_of` lets the server carry a statement out, and breaks the connection instead of answering.
    `refuse` breaks the connection before the server gets the statement. Each holds for one statement: the
    next one with these words, or a later one. `silence` keeps the connections that stand open, and passes
    nothing on any more. `silence_at` does this with the connection of the next statement with these words."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._listening: Listener | None = None
        self._lose: bytes | None = None
        self._refuse: bytes | None = None
        self._silence: bytes | None = None
        self._passing = 0  # so many more pass first
        self._tasks: set[asyncio.Task[None]] = set()
        self._silenced: set[asyncio.Task[None]] = set()
        self.broken = 0

    @property
    def url(self) -> str:
        assert self._listening is not None
        port = self._listening.port
        return f"postgresql://{USER}@{HOST}:{port}/postgres?sslmode=disable&gssencmode=disable"

    def lose_answer_of(self, words: bytes, *, passing: int = 0) -> None:
        self._lose, self._passing = words, passing

    def refuse(self, words: bytes, *, passing: int = 0) -> None:
        self._refuse, self._passing = words, passing

    def silence(self) -> None:
        self._silenced |= self._tasks

    def silence_at(self, words: bytes) -> None:
        self._silence = words

    def forgive(self) -> None:
        """Break nothing."""
        self._lose = self._refuse = None

    async def __aenter__(self) -> BreakingProxy:
        self._listening = Listener(self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._listening is not None
        await self._listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream = await asyncio.open_connection(HOST, self._server.port)
        try:
            await self._carry(reader, writer, upstream_reader, upstream)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for each in (writer, upstream):
                each.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await each.wait_closed()

    def _is_now(self, words: bytes, data: bytes) -> bool:
        if words not in data:
            return False
        self._passing -= 1
        return self._passing < 0

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream_reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        losing = asyncio.Event()
        serving = asyncio.current_task()

        async def up() -> None:
            while data := await reader.read(PIECE):
                if self._refuse is not None and self._is_now(self._refuse, data):
                    self._refuse, self.broken = None, self.broken + 1
                    return
                if self._lose is not None and self._is_now(self._lose, data):
                    self._lose, self.broken = None, self.broken + 1
                    losing.set()
                if self._silence is not None and self._silence in data and serving is not None:
                    self._silence, self.broken = None, self.broken + 1
                    self._silenced.add(serving)
                await self._pass_on(data, upstream, serving)

        async def down() -> None:
            while data := await upstream_reader.read(PIECE):
                if losing.is_set():
                    return
                await self._pass_on(data, writer, serving)

        ways = [asyncio.create_task(up()), asyncio.create_task(down())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(
        self, data: bytes, end: asyncio.StreamWriter, serving: asyncio.Task[None] | None
    ) -> None:
        if serving not in self._silenced:
            end.write(data)
            await end.drain()
