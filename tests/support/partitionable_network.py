"""A network between servers on the loopback that can be split, while clients still reach every one of them.

Each server calls others from an address of its own (`bind-source-addr`) and is known to them by the port of
a relay, which therefore knows who calls whom. A split does not refuse what it holds back: packets disappear,
as behind a switch that was unplugged. So no server gets an error, and each has to notice the silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from tests.support.listener import Listener
from tests.support.servers import HOST

T = TypeVar("T")

#: Bytes read at once.
PIECE: Final = 1 << 16

#: Seconds until the thread has done what it was asked.
PATIENCE: Final = 10.0


class Network:
    """Runs in a thread of its own, so that tests may block while servers talk."""

    def __init__(self) -> None:
        self._numbers = count(2)
        self._lonely: set[str] = set()  # addresses of servers that reach no other
        self._lines: set[Line] = set()
        self._relays: list[Listener] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Network:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def new_address(self) -> str:
        """For one server: all of 127.0.0.0/8 is this machine."""
        return f"127.0.0.{next(self._numbers)}"

    def port_to(self, address: str, port: Callable[[], int]) -> int:
        """A port that leads to a port of the server with this address, which need not have it yet."""

        async def open_relay() -> int:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if writer.get_extra_info("peername"):  # else the caller has gone already
                    await Line(self, address, port, writer).relay(reader, writer)

            self._relays.append(Listener(serve))
            return self._relays[-1].port

        return self._do(open_relay())

    def isolate(self, address: str) -> None:
        """Between this server and all others nothing passes any more."""
        self._lonely.add(address)
        self._do(self._swallow())

    def heal(self) -> None:
        """Everything passes again, on new connections: the old ones have lost some bytes."""
        self._lonely.clear()
        self._do(self._hang_up())

    def clients_of(self, address: str) -> int:
        """How many connections clients have to this server, as far as they lead through here."""
        return sum(line.caller == HOST and line.address == address for line in list(self._lines))

    def is_cut(self, caller: str, address: str) -> bool:
        return HOST not in (caller, address) and (caller in self._lonely) != (address in self._lonely)

    @contextlib.contextmanager
    def carrying(self, line: Line) -> Iterator[None]:
        self._lines.add(line)
        try:
            yield
        finally:
            self._lines.discard(line)

    async def _swallow(self) -> None:
        for line in self._lines:
            line.swallows = line.swallows or self.is_cut(line.caller, line.address)

    async def _hang_up(self) -> None:
        for line in [line for line in self._lines if line.swallows]:
            line.end()

    async def _end(self) -> None:
        for relay in self._relays:
            await relay.close()

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)


class Line:
    """One connection through the network."""

    def __init__(
        self, network: Network, address: str, port: Callable[[], int], writer: asyncio.StreamWriter
    ) -> None:
        self.caller: str = writer.get_extra_info("peername")[0]
        self.address = address
        self.swallows = network.is_cut(self.caller, address)
        self._network = network
        self._port = port
        self._task = cast("asyncio.Task[None]", asyncio.current_task())

    def end(self) -> None:
        if not self._task.cancelling():  # a second time it would not wait for its ends
            self._task.cancel()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._network.carrying(self):
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.swallows:
            await asyncio.Event().wait()  # until it is ended
        with contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(HOST, self._port())
            ways = [
                asyncio.ensure_future(self._carry(reader, there_writer)),
                asyncio.ensure_future(self._carry(there_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                there_writer.transport.abort()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (data := await reader.read(PIECE)) or self.swallows:
            if self.swallows:
                await asyncio.Event().wait()  # not even an end is told
            writer.write(data)
            await writer.drain()
