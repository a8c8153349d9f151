"""The thread of a synchronous caller, lent to the plain functions that run because of it.

What belongs to a thread (a database connection with its open transaction) is then the same for a test and for
the jobs it enqueues.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Errand = Callable[[], None]


class Caller:
    """A thread that waits for something, and runs errands meanwhile."""

    def __init__(self) -> None:
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()

    def wait_for(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in a thread of its own and run errands here until it returns."""
        answer: Future[T] = Future()
        token = caller.set(self)
        context = copy_context()
        caller.reset(token)

        def work() -> None:
            _fulfil(answer, lambda: context.run(function, *args, **kwargs))
            self._errands.put(None)

        threading.Thread(target=work, name="headrace inline", daemon=True).start()
        while (errand := self._errands.get()) is not None:
            errand()
        return answer.result()

    def lent_to(self, function: Callable[P, T]) -> Callable[P, T]:
        """`function` for any thread to call; it runs in this one."""

        def carried(*args: P.args, **kwargs: P.kwargs) -> T:
            answer: Future[T] = Future()
            context = copy_context()

            def errand() -> None:
                _fulfil(answer, lambda: context.run(function, *args, **kwargs))
                if isinstance(interrupt := answer.exception(), KeyboardInterrupt):
                    raise interrupt  # it was meant for the test, not for the job

            self._errands.put(errand)
            return answer.result()

        return carried


#: Whoever waits, in a plain thread, for what is going on.
caller: ContextVar[Caller] = ContextVar("headrace_caller")


def _fulfil(answer: Future[T], function: Callable[[], T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as error:
        answer.set_exception(error)
