"""An event loop in a daemon thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads until `stop`."""

    def __init__(self, name: str = "headrace loop") -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._ended: Future[None] = Future()
        self._calls: set[Future[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether no caller waits for an answer."""
        return not self._calls

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the context of the caller. Not allowed after `stop`."""
        call = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def stop(self) -> None:
        """End the thread. Calls without an answer are cancelled, so that no caller waits for ever."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def ended(self) -> None:
        """Wait, on another loop, until the thread has ended."""
        await asyncio.wrap_future(self._ended)
        self._thread.join()

    def join(self) -> None:
        """Wait until the thread has ended. Not for coroutines."""
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_end_all())
        finally:
            self.loop.close()
            self._ended.set_result(None)


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
