"""Runs the plain functions of jobs in the thread of the synchronous test that waits for them.

So a test and the jobs that it enqueues share what belongs to a thread, such as a database connection with its
open transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Caller:
    """A thread that waits for a call, and runs functions for it meanwhile."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def wait_for(self, submit: Callable[[], Future[T]]) -> T:
        """Submit a call, and run functions for it here until it is answered."""
        token = caller.set(self)
        try:
            answer = submit()
        finally:
            caller.reset(token)
        answer.add_done_callback(lambda _: self._work.put(None))
        while (work := self._work.get()) is not None:
            work()
        return answer.result()

    def run_here(self, function: Callable[P, T]) -> Callable[P, T]:
        """A function that any thread may call, and that runs `function` in this thread."""

        def carried(*args: P.args, **kwargs: P.kwargs) -> T:
            answer: Future[T] = Future()
            context = copy_context()

            def work() -> None:
                try:
                    answer.set_result(context.run(function, *args, **kwargs))
                except BaseException as error:
                    answer.set_exception(error)
                    if isinstance(error, KeyboardInterrupt):
                        raise  # it is for the test, not for the job

            self._work.put(work)
            return answer.result()

        return carried


class CallerWaits:
    """Lets each thread that waits for a call of the app run functions meanwhile."""

    def result(self, submit: Callable[[], Future[T]]) -> T:
        on_a_loop = asyncio._get_running_loop() is not None  # functions must not run inside of its step
        return submit().result() if on_a_loop else Caller().wait_for(submit)


#: The plain thread that waits for the current work.
caller: ContextVar[Caller] = ContextVar("headrace_caller")
