"""Threads for plain functions.

`ThreadPoolExecutor` makes the interpreter wait at exit for every thread; a handler that hangs would then keep
its worker from ever ending. These threads are daemons, started when they are needed.
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

#: What would end the slot or the loop instead of the job, if it were raised there.
_LOOPS_OWN = (StopIteration, GeneratorExit, KeyboardInterrupt)

#: Threads with a function that nobody waits for any more. When there are so many, new work waits for one of
#: them: something hangs again and again, and threads are not to be had without end.
GIVEN_UP_MOST = 100


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
        self.open = [True]  # emptied by whoever is first: the thread at its end, or nobody waiting any more

    def close(self) -> bool:
        """Whether this call is the first. Without a lock: thread and event loop would get in each other's
        way at every job."""
        try:
            return bool(self.open) and self.open.pop()
        except IndexError:
            return False

    def do(self) -> Callable[[], None]:
        """Run the function; the answer tells the event loop how it ended."""
        try:
            value = self.context.run(self.function, *self.args, **self.kwargs)
        except BaseException as error:
            return partial(self._deliver, self._fail, error)
        return partial(self._deliver, self._succeed, value)

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
    """At most `size` daemon threads, fed through one queue.

    When nobody waits for a function any more that still runs (middleware has a timeout of its own, say), its
    thread is given up: another takes its place, and it ends after that function.
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
        """Run `function` in a thread, in `context`; the future is this loop's."""
        work = _Work(context, function, args, kwargs)
        self._busy += 1
        self._start_if_needed()
        work.future.add_done_callback(partial(self._over, work))
        self._queue.put(work)
        return work.future

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work."""
        with self._lock:
            for _ in range(self._started):
                self._queue.put(None)
            self._started = 0

    def _over(self, work: _Work, _: object) -> None:
        """Nobody waits for it any more, on the event loop."""
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
        """Of a thread that was given up."""
        with self._lock:
            self._given_up -= 1
            needed = self._is_short
            self._started += needed
            return needed
