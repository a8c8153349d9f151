"""Carries signals to those who listen."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headrace.core.signals import Signal

S = TypeVar("S", bound=Signal)
Listener = Callable[[Any], Awaitable[None] | None]

logger = logging.getLogger("headrace")


class Emitter:
    """Listeners by signal type. A listener to a base class hears its subclasses too.

    `wanted` holds every type that somebody listens to, so that a signal for nobody need not even be made.
    """

    def __init__(self) -> None:
        self._listeners: list[tuple[type[Signal], Listener]] = []
        self._by_type: dict[type[Signal], tuple[Listener, ...]] = {}
        self.wanted: frozenset[type[Signal]] = frozenset()
        self._under_way: set[asyncio.Task[None]] = set()

    def on(self, signal: type[S], listener: Callable[[S], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener` for each `signal`; the answer ends it."""
        entry = (signal, listener)
        self._listeners.append(entry)
        self._changed()

        def off() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)
                self._changed()

        return off

    def emit(self, signal: Signal) -> None:
        """Tell every listener. Their errors are logged and go no further."""
        for listener in self._listening(type(signal)):
            try:
                answer = listener(signal)
                if answer is not None and inspect.isawaitable(answer):
                    self._follow(answer, listener, signal)
            except BaseException:  # no error of a listener ends what is announced, not even a cancellation
                _complain(listener, signal)

    async def settle(self) -> None:
        """Wait for listeners that are still at work on this loop."""
        while tasks := self._here():
            await asyncio.gather(*tasks, return_exceptions=True)

    def _here(self) -> list[asyncio.Task[None]]:
        """Those on this loop; of loops that are gone nobody is at work any more."""
        loop = asyncio.get_running_loop()
        tasks = list(self._under_way)
        self._under_way.difference_update([task for task in tasks if task.get_loop().is_closed()])
        return [task for task in tasks if task.get_loop() is loop and not task.done()]

    def _changed(self) -> None:
        self._by_type.clear()
        self.wanted = frozenset(kind for wanted, _ in self._listeners for kind in _kinds_of(wanted))

    def _listening(self, signal: type[Signal]) -> tuple[Listener, ...]:
        found = self._by_type.get(signal)
        if found is None:
            found = tuple(listener for wanted, listener in self._listeners if issubclass(signal, wanted))
            self._by_type[signal] = found
        return found

    def _follow(self, answer: Awaitable[None], listener: Listener, signal: Signal) -> None:
        task = asyncio.get_running_loop().create_task(_await(answer, listener, signal))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


def _kinds_of(signal: type[Signal]) -> set[type[Signal]]:
    """A type of signal with all below it."""
    return {signal}.union(*(_kinds_of(each) for each in signal.__subclasses__()))


async def _await(answer: Awaitable[None], listener: Listener, signal: Signal) -> None:
    try:
        await answer
    except GeneratorExit:
        raise
    except BaseException:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        _complain(listener, signal)


def _complain(listener: Listener, signal: Signal) -> None:
    logger.exception("a listener failed and was passed over: %r on %r", listener, signal)
