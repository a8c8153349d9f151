"""Continues a handler that has suspended. Each step runs in the job's own context."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

#: The text of the error that replaces a handler's own GeneratorExit, which would look like a closing slot.
NOT_CLOSING = "a handler raised GeneratorExit"


class Suspension:
    """A coroutine that was started without a task and has yielded `yielded`. Await this to get its value.

    The slot's task awaits what the coroutine awaits. So `asyncio.timeout`, task groups and cancellation work
    with one task, as if the handler had a task of its own.
    """

    __slots__ = ("_context", "_coroutine", "_yielded")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: Context, yielded: Any) -> None:
        self._coroutine = coroutine
        self._context = context
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        run = self._context.run
        send, throw = self._coroutine.send, self._coroutine.throw
        yielded = self._yielded
        closing = False
        try:
            while True:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    closing = True
                    run(self._coroutine.close)
                    raise
                except BaseException as error:
                    yielded = run(throw, error)
                else:
                    yielded = run(send, sent)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as error:
            if closing:
                raise
            raise RuntimeError(NOT_CLOSING) from error
