"""Blocking calls of our own, each in a daemon thread.

The event loop's default executor belongs to the user: nothing of ours may wait until one of its threads is
free. And at exit the interpreter waits for the threads of every executor, but not for daemons.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Call `function` in a thread of its own, and wait for what it returns. A caller that is cancelled leaves
    the thread behind."""
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
            pass  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name="headrace call", daemon=True).start()
    return await answer


def _settable(error: BaseException) -> BaseException:
    """A future takes no StopIteration, and the others would end the loop."""
    if isinstance(error, StopIteration | KeyboardInterrupt | SystemExit):
        return RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    return error
