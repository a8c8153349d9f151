"""The portal: from plain code to an event loop where the app's store is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from headrace.core.errors import AppClosed, ConfigurationError

from .app_loop import AppLoop
from .loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Stoppable(Protocol[T_co]):
    """An asynchronous iterator that can be ended while a caller waits for its next value."""

    async def __anext__(self) -> T_co: ...
    async def stop(self) -> None: ...


class Waiting(Protocol):
    """How a thread waits for a call that it submits."""

    def result(self, submit: Callable[[], Future[T]]) -> T: ...


class Portal:
    """Runs coroutines of the app for plain code, on the loop of the app's own thread, and waits for them."""

    def __init__(self, app_loop: AppLoop) -> None:
        self._app_loop = app_loop
        self.waiting: Waiting | None = None  # for tests, which use the thread that waits

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` on that loop, and wait for its result."""
        self._check()
        try:
            if self.waiting is not None:
                return self.waiting.result(partial(self._app_loop.submit, function, *args, **kwargs))
            return self._app_loop.submit(function, *args, **kwargs).result()
        except CancelledError:
            raise AppClosed("the app was closed before it answered") from None

    def iterate(self, values: Stoppable[T]) -> Iterator[T]:
        """Iterate on that loop. Leaving the `for` statement stops `values`."""
        try:
            while following := self.run(_next, values):
                yield following[0]
        finally:
            self.run(values.stop)

    def close(self) -> None:
        """Close the app, and end its thread if there is one."""
        self._check()
        thread = LoopThread()  # a thread of its own, because closing ends the app's thread
        try:
            thread.submit(self._app_loop.close()).result()
        finally:
            thread.stop()
            thread.join()

    def _check(self) -> None:
        loop = asyncio._get_running_loop()
        if loop is not None and self._app_loop.lives_on(loop):
            raise ConfigurationError(
                "app.sync was called on an event loop that has the app open, and would block this loop: "
                "await the method of the app instead"
            )


async def _next(values: Stoppable[T]) -> list[T]:
    """The next value in a list, which is empty at the end."""
    try:
        return [await values.__anext__()]
    except StopAsyncIteration:
        return []
