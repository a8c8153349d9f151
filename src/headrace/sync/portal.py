"""The portal: from plain code to the app's event loop. Where no loop is open, one daemon thread runs one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from headrace.core.errors import AppClosed, ConfigurationError
from headrace.engine.home import Home

T = TypeVar("T")


class Portal:
    """Runs coroutines on the app's loop from plain code, and waits for them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Call `function` on the app's loop and wait for what it returns."""
        loop = self._loop()
        if loop is _running_loop():
            raise ConfigurationError(
                "app.sync was called on the event loop that the app lives on, which would wait for itself: "
                "await the method of the app instead"
            )
        try:
            return asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop).result()
        except CancelledError:
            raise AppClosed("the app was closed before it answered") from None

    def close(self) -> None:
        """Close the app, and end the portal's thread if there is one."""
        if self._home.loop is not None:
            self.run(self._home.close)
        with self._lock:
            loop, thread = self._own, self._thread
            self._own = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def forget(self) -> None:
        """After a fork the thread is not there any more, and neither is its loop."""
        self._lock = threading.Lock()
        self._own = self._thread = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        home = self._home.loop
        if home is not None and home.is_running():
            return home
        with self._lock:
            if self._own is None:
                self._own = self._start()
            return self._own

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        started = threading.Event()
        loop.call_soon(started.set)
        self._thread = threading.Thread(target=_serve, args=(loop,), name="headrace portal", daemon=True)
        self._thread.start()
        started.wait()
        return loop


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_all())
        loop.close()


async def _end_all() -> None:
    """Whoever still waits for an answer gets to know that there will be none."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
