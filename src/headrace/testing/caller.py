"""Runs the plain functions of jobs in the thread of the synchronous test that waits for them.

So a test and the jobs that it enqueues share what belongs to a thread, such as a database connection with its
open transaction.
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
    """A thread that waits for a function in another thread, and runs functions for it meanwhile."""

    def __init__(self) -> None:
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()

    def wait_for(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in a thread of its own, and run functions for it here until it returns."""
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
        """A function that any thread may call, and that runs `function` in this thread."""

        def carried(*args: P.args, **kwargs: P.kwargs) -> T:
            answer: Future[T] = Future()
            context = copy_context()

            def errand() -> None:
                _fulfil(answer, lambda: context.run(function, *args, **kwargs))
                if isinstance(interrupt := answer.exception(), KeyboardInterrupt):
                    raise interrupt  # it is for the test, not for the job

            self._errands.put(errand)
            return answer.result()

        return carried


#: The plain thread that waits for the current work.
caller: ContextVar[Caller] = ContextVar("headrace_caller")


def _fulfil(answer: Future[T], function: Callable[[], T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as error:
        answer.set_exception(error)
