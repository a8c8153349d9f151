"""The event loop that an app lives on, and its store's life there.

An app belongs to the loop that first used it. Calls from other loops are carried there; when that loop is
closed the next use binds the app to its own.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from headrace.core.backend import Backend
from headrace.core.errors import AppClosed, ConfigurationError

from .main_module import refuse_while_loading

T = TypeVar("T")

_homes: weakref.WeakSet[Home] = weakref.WeakSet()


class Resident(Protocol):
    """What lives on the app's loop and needs the store until it has stopped."""

    async def stop(self) -> None: ...


class Home:
    """Opens the store on first use, on one loop, and closes what was opened in the reverse order."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._open = False
        self._left_open = False  # by a loop that died: close it first
        self._closing = False
        self._residents: set[Resident] = set()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._forgetters: list[Callable[[], None]] = []
        self._after_fork: list[Callable[[], None]] = []
        _homes.add(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop the app lives on, while that one is alive."""
        if self._loop is not None and self._loop.is_closed():
            return None
        return self._loop

    def before_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Await `closer` when the app closes, before the store does; the last added goes first."""
        self._closers.append(closer)

    def when_abandoned(self, forget: Callable[[], None]) -> None:
        """Call `forget` when the loop died without a close, so that nothing of it is used again."""
        self._forgetters.append(forget)

    def when_forked(self, forget: Callable[[], None]) -> None:
        """Call `forget` in a child process, where no thread and no loop of the parent's goes on."""
        self._after_fork.append(forget)

    @property
    def is_here(self) -> bool:
        """Whether the store is open on the running loop, so that nothing need be carried there by `call`."""
        return self._open and not self._closing and self._loop is asyncio.get_running_loop()

    async def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run `function` on the app's loop with the store open, and bring back what it returns."""
        loop = self._bind()
        if loop is not asyncio.get_running_loop():
            return await _carried(self.call(function, *args, **kwargs), loop)
        while not self._open:
            await self._opened()
        return await function(*args, **kwargs)

    async def move_here(self) -> None:
        """Bind the app to the running loop: a worker lives where it runs, not where it was made."""
        loop = self.loop
        if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
            return
        if self._residents:
            raise ConfigurationError("a worker of this app runs on another event loop; make a second App")
        await self.close()

    def enter(self, resident: Resident) -> None:
        """A worker lives here now; it is stopped before the store is closed under it."""
        self._residents.add(resident)

    def leave(self, resident: Resident) -> None:
        self._residents.discard(resident)

    async def close(self) -> None:
        """Finish what is under way, then close the store. The next use opens it again."""
        loop = self.loop
        if loop is None or not loop.is_running():
            self._abandon()
            await self._close_what_was_left()
            return
        if loop is not asyncio.get_running_loop():
            await _carried(self.close(), loop)
            return
        await self._close()

    async def _close(self) -> None:
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        for resident in list(self._residents):
            await resident.stop()
        if not self._open or self._closing:
            return
        self._closing = True
        try:
            for closer in reversed(self._closers):
                await closer()
            await self.backend.close()
        finally:
            self._open = self._closing = False
            self._loop = None

    def _bind(self) -> asyncio.AbstractEventLoop:
        refuse_while_loading()
        if self._closing:
            raise AppClosed("the app is closing; wait for close() to end, then use it again")
        loop = self._loop
        if loop is not None and not loop.is_closed() and loop.is_running():
            return loop
        if loop is not None:
            self._abandon()
        self._loop = asyncio.get_running_loop()
        return self._loop

    def forget_parent(self) -> None:
        """Begin anew in a child process: its parent's loop must never be waited for here."""
        for forget in self._after_fork:
            forget()
        self._abandon()
        self._closing = False

    def _abandon(self) -> None:
        for forget in self._forgetters:
            forget()
        self._residents.clear()
        self._left_open = self._left_open or self._open
        self._loop = self._opening = None
        self._open = False

    async def _opened(self) -> None:
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.get_running_loop().create_task(self._do_open())
        try:
            await asyncio.shield(opening)
        finally:
            if opening.done() and self._opening is opening:
                self._opening = None

    async def _do_open(self) -> None:
        await self._close_what_was_left()
        await self.backend.open()
        self._open = True

    async def _close_what_was_left(self) -> None:
        if self._left_open:
            self._left_open = False
            await self.backend.close()


async def _carried(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run `coroutine` on another thread's loop and wait for it on this one."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise AppClosed("the event loop that the app lived on ended before it answered") from None


def _forget_parents() -> None:
    for home in list(_homes):
        home.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
