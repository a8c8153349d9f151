"""The portal: from plain code to an event loop where the app's store is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, ParamSpec, TypeVar

from headrace.core.errors import AppClosed, ConfigurationError
from headrace.engine.home import Home
from headrace.engine.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """Runs coroutines of the app from plain code, on the loop of the app's own thread, and waits for them."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` there and wait for what it returns."""
        self._check()
        try:
            return self._home.submit(function, *args, **kwargs).result()
        except CancelledError:
            raise AppClosed("the app was closed before it answered") from None

    def close(self) -> None:
        """Close the app, and end its thread if there is one."""
        self._check()
        thread = LoopThread()  # not the app's own, which is to end
        try:
            thread.submit(self._home.close()).result()
        finally:
            thread.stop()
            thread.join()

    def _check(self) -> None:
        loop = asyncio._get_running_loop()
        if loop is not None and self._home.lives_on(loop):
            raise ConfigurationError(
                "app.sync was called on the event loop that the app lives on, which would wait for itself: "
                "await the method of the app instead"
            )
