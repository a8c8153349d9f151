"""A supervised loop. Every loop of a worker is a `Service`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from headrace.core.errors import StoreMoved
from headrace.core.signals import BackendError

from .emitter import Emitter

#: Seconds. After the n-th failure in a row a loop waits up to 0.1·2ⁿ, full jitter, at most this. All loops
#: work again at most this long after the store does. Connections have their own pauses, shared by all loops.
LONGEST_BACKOFF = 1.0

#: Seconds until the next step after one that found everything moved to another store.
MOVED_PAUSE = 30.0


class ServicePart(Protocol):
    """A part of a worker that runs between its start and its stop."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


#: A step says how long to wait until the next one: seconds, or None to go on at once.
Step = Callable[[], Awaitable[float | None]]


def backoff(failures: int) -> float:
    """Seconds to wait after this many failures in a row."""
    return random.uniform(0.02, min(LONGEST_BACKOFF, 0.1 * 2.0 ** min(failures, 10)))  # nosec B311 # jitter


class Service:
    """Repeats a step until it is stopped. After an error it emits a signal, waits and goes on: no loop ends.

    `poked` is an event that ends a pause. Other parts may set it.
    """

    def __init__(
        self, name: str, step: Step, *, emitter: Emitter, poked: asyncio.Event | None = None
    ) -> None:
        self.name = name
        self.failures = 0
        self._step = step
        self._emitter = emitter
        self._stopping = False
        self._poked = poked or asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"headrace {self.name}")
        self._task.add_done_callback(self._ended)

    def poke(self) -> None:
        """Take the next step now, without waiting out the pause."""
        self._poked.set()

    async def stop(self) -> None:
        """Let the current step end, then end the loop. A running step is never cancelled."""
        self._stopping = True
        self._poked.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Start the loop again when it was cancelled but not stopped: it may have work left."""
        if not self._stopping and task is self._task and task.cancelled():
            self.start()
            # The event loop may be closing. Then asyncio must not warn about this task.
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _run(self) -> None:
        while not self._stopping:
            self._poked.clear()
            pause = await self._guarded_step()
            if pause is not None:
                await self._sleep(pause)

    async def _guarded_step(self) -> float | None:
        try:
            pause = await self._step()
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, GeneratorExit) or (task is not None and task.cancelling()):
                raise
            self.failures += 1
            pause = MOVED_PAUSE if isinstance(error, StoreMoved) else backoff(self.failures)
            text = f"{type(error).__name__}: {error}"
            self._emitter.emit(BackendError(service=self.name, error=text, delay=pause))
        else:
            self.failures = 0
        return pause

    async def _sleep(self, pause: float) -> None:
        handle = asyncio.get_running_loop().call_later(pause, self._poked.set)
        try:
            await self._poked.wait()
        finally:
            handle.cancel()


async def carried_through(work: Coroutine[Any, Any, None], hurry: Callable[[], None] = lambda: None) -> None:
    """Wait until `work` ends. A cancellation does not interrupt it: it calls `hurry`, and is raised
    afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancellation:
            hurry()
            cancelled = cancellation
    task.result()
    if cancelled is not None:
        raise cancelled


async def first_of(*awaitables: Awaitable[object]) -> None:
    """Wait until one of them is done; the others are cancelled. Errors are raised."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
