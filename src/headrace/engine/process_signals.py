"""SIGTERM and SIGINT while a worker runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


class StopSignals:
    """The first signal asks a worker to stop, the second to hurry."""

    def __init__(self, *, first: Callable[[], None], second: Callable[[], None]) -> None:
        self._first = first
        self._second = second
        self._count = 0

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    def _received(self) -> None:
        self._count += 1
        (self._first if self._count == 1 else self._second)()
