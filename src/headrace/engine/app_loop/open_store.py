"""The store as one event loop has it open, with the producer that appends to it there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from headrace.core.errors import AppClosed
from headrace.engine.emitter import is_listener
from headrace.engine.producing.producer import Producer
from headrace.engine.service import carried_through
from headrace.engine.streams import StreamRouter


class OpenStore:
    """A store for one event loop. The first use opens it, and it is closed on the same loop."""

    def __init__(
        self,
        backend: StreamRouter,
        *,
        left: Sequence[StreamRouter],
        closers: Iterable[Callable[[], Awaitable[None]]],
    ) -> None:
        self.backend = backend
        self.producer: Producer = Producer(backend)
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.ready: bool = False  # open, and not closing
        self.entered = 0  # `async with app` blocks on this loop that are not left yet
        self.users: set[Callable[[], Awaitable[None]]] = set()  # how to stop workers and tails on this loop
        self._left = left  # stores of event loops that are gone: closed before this one is opened
        self._closers = closers
        self.closing: bool = False  # or closed
        self.closed: bool = False
        self._close_ended = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._openers = 0  # callers that wait for the opening

    @property
    def close_under_way(self) -> bool:
        return self.closing and not self._close_ended.is_set()

    async def opened(self) -> None:
        """Open the store, or wait until it is open. The opening goes on when one of several callers is
        cancelled."""
        while not self.ready:
            if self.closing:
                raise AppClosed("the app is closing; wait for close() to end, then use it again")
            while (opening := self._opening) is not None and opening.cancelling():
                await asyncio.wait([opening])  # its last caller was cancelled
                if self._opening is opening:
                    self._opening = None
            if opening is None:
                opening = self._opening = self.loop.create_task(self._open())
            self._openers += 1
            try:
                await asyncio.shield(opening)
            finally:
                self._openers -= 1
                if not self._openers:
                    opening.cancel()  # opening a store that cannot be reached may take long
                if opening.done() and self._opening is opening:
                    self._opening = None

    async def close(self) -> None:
        """Stop the workers and tails on this loop, finish what is under way, and close the store.

        A cancellation while something is under way ends the wait for it. The store is closed all the same.
        A second caller waits for the first one, unless it is a listener: the first one waits for listeners.
        """
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        for stop in list(self.users):
            await stop()
        if self.closing:
            if not is_listener():
                await self._close_ended.wait()
            return
        self.closing, self.ready = True, False
        try:
            await self.producer.close()
            for closer in self._closers:
                await closer()
        finally:
            await carried_through(self._close_store())

    async def _close_store(self) -> None:
        try:
            await self.backend.close()
            self.closed = True
        finally:
            self._close_ended.set()

    async def _open(self) -> None:
        left, self._left = self._left, ()
        for backend in left:
            await backend.close()
        await self.backend.open()
        self.ready = True
