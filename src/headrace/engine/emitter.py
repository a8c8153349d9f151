"""Calls the listeners of signals."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from headrace.core.signals import Signal

S = TypeVar("S", bound=Signal)
Listener = Callable[[Any], Awaitable[None] | None]

logger = logging.getLogger("headrace")

_is_listener: ContextVar[bool] = ContextVar("headrace_listener", default=False)


class Emitter:
    """Listeners by signal type. A listener to a base class gets the signals of its subclasses too.

    `wanted` holds every type that has a listener. So callers need not make a signal without a listener.
    """

    def __init__(self) -> None:
        self._listeners: list[tuple[type[Signal], Listener]] = []
        self._by_type: dict[type[Signal], tuple[Listener, ...]] = {}
        self.wanted: frozenset[type[Signal]] = frozenset()
        self._under_way: set[asyncio.Task[None]] = set()

    def on(self, signal: type[S], listener: Callable[[S], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener` for each `signal`. Returns a function that removes the listener."""
        entry = (signal, listener)
        self._listeners.append(entry)
        self._changed()

        def off() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)
                self._changed()

        return off

    def emit(self, signal: Signal) -> None:
        """Call every listener. Their errors are logged and not raised."""
        for listener in self._listening(type(signal)):
            try:
                answer = listener(signal)
                if answer is not None and inspect.isawaitable(answer):
                    self._follow(answer, listener, signal)
            except BaseException:  # no error of a listener reaches the caller, not even a cancellation
                _log_error(listener, signal)

    async def settle(self) -> None:
        """Wait for asynchronous listeners that still run on this loop; a listener, for all others."""
        while tasks := self._here():
            await asyncio.gather(*tasks, return_exceptions=True)

    def _here(self) -> list[asyncio.Task[None]]:
        """The tasks on this loop. Forgets tasks of closed loops: they never run again."""
        loop = asyncio.get_running_loop()
        tasks = list(self._under_way)
        self._under_way.difference_update([task for task in tasks if task.get_loop().is_closed()])
        this = asyncio.current_task()
        return [task for task in tasks if task.get_loop() is loop and task is not this and not task.done()]

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


def is_listener() -> bool:
    """Whether an asynchronous listener calls this."""
    return _is_listener.get()


def _kinds_of(signal: type[Signal]) -> set[type[Signal]]:
    """A signal type and all its subclasses."""
    return {signal}.union(*(_kinds_of(each) for each in signal.__subclasses__()))


async def _await(answer: Awaitable[None], listener: Listener, signal: Signal) -> None:
    _is_listener.set(True)  # in the context of this task alone
    try:
        await answer
    except GeneratorExit:
        raise
    except BaseException:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        _log_error(listener, signal)


def _log_error(listener: Listener, signal: Signal) -> None:
    logger.exception("a listener failed and was passed over: %r on %r", listener, signal)
