"""SIGTERM and SIGINT while a worker runs."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any, ClassVar

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The first signal asks a worker to stop, the second to hurry. All workers of the process are asked.

    Only the main thread can receive signals; elsewhere this does nothing, and the worker runs until its task
    is cancelled. What handled the signals before handles them again afterwards.
    """

    _entered: ClassVar[list[StopSignals]] = []
    _previous: ClassVar[dict[int, Any]] = {}

    def __init__(self, *, first: Callable[[], None], second: Callable[[], None]) -> None:
        self._first = first
        self._second = second
        self._count = 0

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._entered:
            loop = asyncio.get_running_loop()
            for number in NUMBERS:
                self._previous[number] = signal.getsignal(number)
                loop.add_signal_handler(number, _received)
        self._entered.append(self)

    def __exit__(self, *_: object) -> None:
        if self not in self._entered:
            return
        self._entered.remove(self)
        if not self._entered:
            loop = asyncio.get_running_loop()
            for number in NUMBERS:
                loop.remove_signal_handler(number)
                signal.signal(number, self._previous.pop(number) or signal.SIG_DFL)

    def receive(self) -> None:
        self._count += 1
        (self._first if self._count == 1 else self._second)()


def _received() -> None:
    for each in list(StopSignals._entered):
        each.receive()
