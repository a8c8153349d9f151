"""Runs blocking calls of headrace, each in a daemon thread.

The event loop's default executor belongs to the user: headrace must not wait until one of its threads is
free. And at exit the interpreter waits for the threads of every executor, but not for daemon threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_daemon_thread(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function` in a thread of its own, and wait for its result. When the caller is cancelled, the
    thread runs on."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(value)  # type: ignore[arg-type]
        else:
            answer.set_exception(_settable(error))

    def work() -> None:
        value, raised = None, None
        try:
            value = context.run(function, *args)
        except BaseException as error:
            raised = error
        try:
            loop.call_soon_threadsafe(deliver, value, raised)
        except RuntimeError:
            pass  # the loop is closed: there is no caller any more

    threading.Thread(target=work, name="headrace call", daemon=True).start()
    return await answer


def _settable(error: BaseException) -> BaseException:
    """The error in a form that a future takes: StopIteration is refused, the other two would end the loop."""
    if isinstance(error, StopIteration | KeyboardInterrupt | SystemExit):
        return RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    return error
