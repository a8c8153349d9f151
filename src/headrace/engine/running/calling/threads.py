"""Runs plain functions in threads.

With `ThreadPoolExecutor` the interpreter waits at exit for every thread. So a handler that hangs would keep
its worker from ending. These threads are daemons, and start when they are needed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any

#: Errors that would end the slot or the loop instead of the job, if they were raised there.
_LOOPS_OWN = (StopIteration, GeneratorExit, KeyboardInterrupt)

#: The limit for threads whose function has no waiting caller any more. At the limit, new work waits for one
#: of them: a function hangs repeatedly, and the number of threads is not unlimited.
GIVEN_UP_MOST = 100


class ThreadError:
    """The result of a future whose function raised an error. It gives the error away once.

    A future that keeps its error is part of a cycle: the error refers to the frames of the run, and they
    refer to the future. The job's arguments would stay in memory until the next full garbage collection.
    """

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error

    def take(self) -> BaseException:
        error, self._error = self._error, None
        assert error is not None
        return error


class _Work:
    """A function to run, and the future on the event loop that waits for it."""

    __slots__ = ("args", "context", "function", "future", "kwargs", "loop", "open", "running")

    def __init__(self, context: Context, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.context = context
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.running = False
        self.open = [True]  # emptied once: by the thread at its end, or when no caller waits

    def close(self) -> bool:
        """Whether this call is the first. It uses no lock: thread and event loop would wait for each other
        at every job."""
        try:
            return bool(self.open) and self.open.pop()
        except IndexError:
            return False

    def do(self) -> Callable[[], None]:
        """Run the function. Returns a callable that passes its value or error to the event loop."""
        try:
            value = self.context.run(self.function, *self.args, **self.kwargs)
        except BaseException as error:
            return partial(self._deliver, self._fail, error)
        return partial(self._deliver, self._succeed, value)

    def _deliver(self, how: Callable[[Any], None], what: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(how, what)
        except RuntimeError:
            pass  # the loop is closed: no caller waits, and the lease runs out

    def _succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, _LOOPS_OWN):
                text = f"a plain function raised {type(error).__name__}"
                error = RuntimeError(text).with_traceback(error.__traceback__)
            self.future.set_result(ThreadError(error))


class Threads:
    """At most `size` daemon threads, which take work from one queue.

    A function may still run when no caller waits for it (middleware has its own timeout, for example). Then
    its thread is given up: another thread replaces it, and it ends after that function.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._started = 0
        self._busy = 0
        self._given_up = 0

    def submit(
        self, context: Context, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> asyncio.Future[Any]:
        """Run `function` in a thread, in `context`. The future belongs to this loop. Its result is what the
        function returned, or `ThreadError`."""
        work = _Work(context, function, args, kwargs)
        self._busy += 1
        self._start_if_needed()
        work.future.add_done_callback(partial(self._over, work))
        self._queue.put(work)
        return work.future

    def close(self) -> None:
        """End idle threads now, and busy threads after their work."""
        with self._lock:
            for _ in range(self._started):
                self._queue.put(None)
            self._started = 0

    def _over(self, work: _Work, _: object) -> None:
        """Called on the event loop when no caller waits for the work any more."""
        self._busy -= 1
        if work.running and work.close():
            with self._lock:
                self._given_up += 1
                self._started -= 1
            if not self._queue.empty():
                self._start_if_needed()

    @property
    def _is_short(self) -> bool:
        return self._started < min(self._busy, self._size)

    def _start_if_needed(self) -> None:
        if self._is_short and self._given_up < GIVEN_UP_MOST:
            with self._lock:
                self._started += 1
            name = f"headrace thread {next(self._numbers)}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work.running = True
            deliver = None if work.future.done() else work.do()
            if not work.close() and not self._is_needed_again():
                return
            if deliver is not None:
                deliver()
            del work, deliver  # an idle thread must not keep the last job's arguments alive

    def _is_needed_again(self) -> bool:
        """Whether a thread that was given up is needed again."""
        with self._lock:
            self._given_up -= 1
            needed = self._is_short
            self._started += needed
            return needed
