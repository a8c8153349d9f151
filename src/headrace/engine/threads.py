"""Threads for plain functions.

`ThreadPoolExecutor` makes the interpreter wait at exit for every thread; a handler that hangs would then keep
its worker from ever ending. These threads are daemons, started when they are needed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any

#: What would end the slot or the loop instead of the job, if it were raised there.
_LOOPS_OWN = (StopIteration, GeneratorExit, KeyboardInterrupt)


class _Work:
    """A function to run, and the future on the event loop that waits for it."""

    __slots__ = ("args", "context", "function", "future", "kwargs", "loop")

    def __init__(self, context: Context, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.context = context
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def do(self) -> None:
        try:
            value = self.context.run(self.function, *self.args, **self.kwargs)
        except BaseException as error:
            self._deliver(self._fail, error)
        else:
            self._deliver(self._succeed, value)

    def _deliver(self, how: Callable[[Any], None], what: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(how, what)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more, and the lease has run out or will

    def _succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, _LOOPS_OWN):
                text = f"a plain function raised {type(error).__name__}"
                error = RuntimeError(text).with_traceback(error.__traceback__)
            self.future.set_exception(error)


class Threads:
    """At most `size` daemon threads, fed through one queue."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._started = 0
        self._busy = 0

    def submit(
        self, context: Context, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> asyncio.Future[Any]:
        """Run `function` in a thread, in `context`; the future is this loop's."""
        work = _Work(context, function, args, kwargs)
        self._busy += 1
        work.future.add_done_callback(self._one_less)
        if self._started < min(self._busy, self._size):
            self._start()
        self._queue.put(work)
        return work.future

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work."""
        for _ in range(self._started):
            self._queue.put(None)
        self._started = 0

    def _one_less(self, _: object) -> None:
        self._busy -= 1

    def _start(self) -> None:
        self._started += 1
        name = f"headrace thread {self._started}"
        threading.Thread(target=_serve, args=(self._queue,), name=name, daemon=True).start()


def _serve(queue: SimpleQueue[_Work | None]) -> None:
    while (work := queue.get()) is not None:
        work.do()
        del work  # an idle thread must not keep the last job's arguments alive
