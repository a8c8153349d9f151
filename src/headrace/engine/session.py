"""The store as one event loop has it open, with the producer that appends to it there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from headrace.core.backend import Backend
from headrace.core.errors import AppClosed

from .producer import Producer


class Resident(Protocol):
    """What runs on an event loop and needs the store there until it has stopped."""

    async def stop(self) -> None: ...


class Session:
    """Opened by its first use, and closed on the same event loop."""

    def __init__(
        self, backend: Backend, *, left: Sequence[Backend], closers: Iterable[Callable[[], Awaitable[None]]]
    ) -> None:
        self.backend = backend
        self.producer: Producer = Producer(backend)
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.ready: bool = False  # open, and not closing
        self.entered = 0  # how often by `async with app`, and not left yet
        self.residents: set[Resident] = set()
        self._left = left  # stores of event loops that are gone: closed before this one is opened
        self._closers = closers
        self.closing: bool = False  # or closed
        self._opening: asyncio.Task[None] | None = None
        self._openers = 0  # who wait for it to be open

    async def opened(self) -> None:
        """Open the store, or wait until it is. A caller that is cancelled spoils it for nobody."""
        while not self.ready:
            if self.closing:
                raise AppClosed("the app is closing; wait for close() to end, then use it again")
            while (opening := self._opening) is not None and opening.cancelling():
                await asyncio.wait([opening])  # nobody waited for it any more
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
                    opening.cancel()  # of a store that is away, which may take its time
                if opening.done() and self._opening is opening:
                    self._opening = None

    async def close(self) -> None:
        """Stop who lives here, finish what is under way, and close the store."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        for resident in list(self.residents):
            await resident.stop()
        if self.closing:
            return
        self.closing, self.ready = True, False
        await self.producer.close()
        for closer in self._closers:
            await closer()
        await self.backend.close()

    async def _open(self) -> None:
        left, self._left = self._left, ()
        for backend in left:
            await backend.close()
        await self.backend.open()
        self.ready = True
