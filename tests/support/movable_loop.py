"""An event loop whose time a test moves, so that it need not wait for the pauses of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

#: Seconds by which the time is moved at once, while a test measures a pause.
STEP: Final = 0.05


class MovableLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._offset = 0.0
        self._stopped_at: float | None = None
        super().__init__()

    def time(self) -> float:
        return (super().time() if self._stopped_at is None else self._stopped_at) + self._offset

    def advance(self, seconds: float) -> None:
        """Have all timers that are due within so many seconds fire now."""
        self._offset += seconds

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """The time changes only by `advance`, so that a busy machine changes no pause."""
        self._stopped_at = super().time()
        try:
            yield
        finally:
            self._stopped_at = None


class Part(Protocol):
    """A part of a worker that runs between its start and its stop."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


@asynccontextmanager
async def running(part: Part) -> AsyncIterator[None]:
    part.start()
    try:
        yield
    finally:
        await part.stop()


async def pause_after(
    count: Callable[[], int], number: int = 1, *, meanwhile: Callable[[], None] = lambda: None
) -> float:
    """Wait until a service has done something so many times, and call `meanwhile`; then the seconds until the
    service does it again."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovableLoop), "a fixture `anyio_backend` names the loop of a test"
    with loop.standing_still():
        await _seconds_until(lambda: count() >= number, loop)
        meanwhile()
        before = count()
        return await _seconds_until(lambda: count() > before, loop)


async def _seconds_until(condition: Callable[[], bool], loop: MovableLoop) -> float:
    passed = 0.0
    await idle()
    while not condition():
        assert passed < 3600, "it is never done"
        loop.advance(STEP)
        passed += STEP
        await idle()
    return passed


async def idle() -> None:
    """Let everything that can go on without a timer do so."""
    for _ in range(10):
        await asyncio.sleep(0)
