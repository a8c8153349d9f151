"""Cancels a call when it waits for the n-th time, as its caller may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Cancellation:
    """`late`: at the moment when what the call waits for is there, just before the call goes on. `hit` says
    whether the call waited so often."""

    def __init__(self, number: int, *, late: bool) -> None:
        self.hit = False
        self._left = number
        self._late = late

    async def within(self, call: Awaitable[T]) -> T:
        return await Steps(call, self._waits)

    def _waits(self, waited_for: object) -> None:
        self._left -= 1
        if self._left == 0:
            self.hit = True
            cancel_here(waited_for if self._late else None)


def cancel_here(waited_for: object = None) -> None:
    """Cancel the running task. With a future: when that is done, just before the task goes on."""
    task = asyncio.current_task()
    assert task is not None
    if not isinstance(waited_for, asyncio.Future):
        task.cancel()
        return

    def cancel(future: asyncio.Future[Any]) -> None:
        if task._fut_waiter is future:  # type: ignore[attr-defined] # it has not gone on for another reason
            task.cancel()

    waited_for.add_done_callback(cancel)


class Steps(Generic[T]):
    """Awaits a call, and calls `waits` with each future for which it waits."""

    def __init__(self, call: Awaitable[T], waits: Callable[[object], None]) -> None:
        self._call = call
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._call.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                waited_for = go_on()
            except StopIteration as stop:
                value: T = stop.value
                return value
            self._waits(waited_for)
            try:
                sent = yield waited_for
            except BaseException as error:
                go_on = partial(_thrown, steps, error)
            else:
                go_on = partial(_sent, steps, sent)


def _sent(steps: Generator[Any, Any, Any], value: object) -> Any:
    """Most awaitables are iterators without `send`."""
    return next(steps) if value is None else steps.send(value)


def _thrown(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)
