"""Goes on with a handler that has suspended, each step in the job's own context."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

#: What a handler's own GeneratorExit becomes; from a slot that is being closed it would look the same.
NOT_CLOSING = "a handler raised GeneratorExit"


class Suspension:
    """A coroutine that was started by hand and gave `yielded`: await this to have its value.

    What the coroutine awaits is passed up to the slot's task, so `asyncio.timeout`, task groups and
    cancellation see one task, as they would if the handler had a task of its own.
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
