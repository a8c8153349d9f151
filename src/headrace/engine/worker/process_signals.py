"""Handles SIGTERM and SIGINT while a worker runs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The first signal asks a worker to stop, the second ends its grace. All workers of the process get it.

    Only the main thread can receive signals. In other threads this does nothing, and the worker runs until
    its task is cancelled. The earlier signal handlers are restored afterwards.
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
                _handle(loop, number)
        self._entered.append(self)

    def __exit__(self, *_: object) -> None:
        if self not in self._entered:
            return
        self._entered.remove(self)
        if not self._entered:
            loop = asyncio.get_running_loop()
            for number in NUMBERS:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)
                signal.signal(number, self._previous.pop(number) or signal.SIG_DFL)

    def receive(self) -> None:
        self._count += 1
        (self._first if self._count == 1 else self._second)()


class _ForkedSignals(threading.local):
    """Blocks signals in a forked child until the child has dropped its parent's handlers and the wake-up
    descriptor. Otherwise a signal to the child would reach the parent's event loop."""

    mask: set[signal.Signals | int] | None = None

    def before(self) -> None:
        if StopSignals._entered:
            self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)

    def in_parent(self) -> None:
        mask, self.mask = self.mask, None
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child(self) -> None:
        if self.mask is not None:
            signal.set_wakeup_fd(-1)
            for number, previous in StopSignals._previous.items():
                signal.signal(number, previous or signal.SIG_DFL)
            StopSignals._entered.clear()
            StopSignals._previous.clear()
        self.in_parent()


if hasattr(os, "register_at_fork"):
    _fork = _ForkedSignals()
    os.register_at_fork(before=_fork.before, after_in_parent=_fork.in_parent, after_in_child=_fork.in_child)


def _handle(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    try:
        loop.add_signal_handler(number, _received)
    except NotImplementedError:  # the event loops of Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(_received))


def _received() -> None:
    for each in list(StopSignals._entered):
        each.receive()
