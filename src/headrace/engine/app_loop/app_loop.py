"""On which event loops an app has its store open.

A store is opened for one event loop and used only there. These loops have a store of their own (`OpenStore`):
the first loop that uses the app, each loop that enters it (`async with app`), and each loop that a worker
runs on. All other loops may end at any moment. They and plain code are served by one long-lived loop in a
thread of the app. So no call depends on a loop that is neither its caller's nor the app's.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from headrace.core.errors import AppClosed, BackendUnavailable
from headrace.core.runtime.clock import AppClock, SystemClock, TimeSource
from headrace.engine.producing.producer import Producer
from headrace.engine.running.children.main_module import refuse_while_loading
from headrace.engine.streams import StreamRouter

from .loop_thread import LoopThread
from .open_store import OpenStore
from .retrying import OnError, with_retries

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Seconds between two checks that a loop which closes its store still runs.
CHECK_EVERY = 0.05

_app_loops: weakref.WeakSet[AppLoop] = weakref.WeakSet()


class AppLoop:
    """Runs calls on an event loop that has the store open. It opens the store on first use, and closes it on
    every loop."""

    def __init__(self, backend: StreamRouter, clock: TimeSource | None = None) -> None:
        self._main = backend  # the store of the first loop; other loops get twins of it
        self._own_clock = clock or SystemClock()
        self.clock: AppClock = AppClock(self._own_clock)
        self._open: dict[asyncio.AbstractEventLoop, OpenStore] = {}
        self._thread: LoopThread | None = None
        self._short_lived = False  # a loop ended without closing the app, so the next one may too
        self._left: list[StreamRouter] = []  # stores of such loops, not closed yet
        self.declared_topics: set[str] = set()  # topics whose rules the store has
        self._closed = 0  # how often the app was closed
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._lock = threading.Lock()
        _app_loops.add(self)

    @property
    def backend(self) -> StreamRouter:
        """The store for the running event loop."""
        opened = self._here()
        return self._main if opened is None else opened.backend

    @property
    def producer(self) -> Producer:
        """The producer for the running event loop, which must have the store open."""
        return self._open[asyncio.get_running_loop()].producer

    @property
    def here(self) -> OpenStore | None:
        """The open store of the running loop. None: the store is not open there, and `call` is needed."""
        opened = self._open.get(asyncio.get_running_loop())
        return opened if opened is not None and opened.ready else None

    @property
    def in_use(self) -> bool:
        """Whether the store is open on a loop that runs."""
        return any(opened.loop.is_running() for opened in list(self._open.values()))

    def lives_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the store is open on this loop, or about to be."""
        return loop in self._open

    @property
    def has_thread(self) -> bool:
        """Whether the app has started its own thread."""
        return self._thread is not None

    @contextmanager
    def swapped(self, backend: StreamRouter, clock: TimeSource) -> Iterator[None]:
        """Use another store and another clock for a while, on loops that end before this does. The app's own
        store is neither opened nor touched meanwhile. For tests."""
        own = self._main, self._open, self._left, self._short_lived, self.declared_topics
        self._main, self._open, self._left, self._short_lived = backend, {}, [], False
        self.declared_topics = set()
        self.clock.follow(clock)
        try:
            yield
        finally:
            self._main, self._open, self._left, self._short_lived, self.declared_topics = own
            self.clock.follow(self._own_clock)

    def before_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Await `closer` on every loop where the store is about to be closed."""
        self._closers.append(closer)

    async def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `function` on a loop that has the store open, and return its result."""
        opened = self._store()
        if opened is None:
            return await _answer(self.submit(lambda: self.call(function, *args, **kwargs)))
        if not opened.ready:
            await opened.opened()
        try:
            return await function(*args, **kwargs)
        except BackendUnavailable as error:
            if opened.closing and not error.uncertain:
                raise AppClosed("the app was closed while this call waited for its store") from error
            raise

    async def repeat(
        self,
        function: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        within: float | None = None,
        waits: bool = False,
        on_error: OnError | None = None,
    ) -> T:
        """Run `function` as `call` does, and repeat it while the store cannot be reached; see
        `with_retries`."""
        closed, opened = self._closed, self._here()

        def once() -> Coroutine[Any, Any, T]:
            if self._closed != closed or (opened is not None and opened.closing):
                # A retry must not open the store again.
                raise AppClosed("the app was closed while this call waited for its store")
            return self.call(function, *args)

        return await with_retries(once, within=within, waits=waits, on_error=on_error)

    async def ask(self, verb: Callable[[StreamRouter], Coroutine[Any, Any, T]]) -> T:
        """Call one verb of the store, with retries: `app_loop.ask(lambda store: store.workers())`."""
        return await self.repeat(self._ask, verb)

    async def carry_out(self, function: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """Run `function` as `call` does, once. Only the opening of the store is repeated."""
        await self.opened()
        return await self.call(function, *args)

    async def opened(self) -> None:
        """Make sure that a call of the running loop finds the store open. While the store cannot be reached,
        the opening is repeated."""
        if not self._finds_open():
            with _nothing_sent():
                await self.repeat(_nothing)

    def submit(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run `function` on the loop of the app's own thread."""
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread()
            return self._thread.submit(function(*args, **kwargs))

    def tell(self, listen: Callable[[T], None], what: T) -> None:
        """Call `listen` on a loop that has entered the app or that a worker runs on: what listeners use
        belongs to that loop. Without such a loop, call it here."""
        for opened in list(self._open.values()):
            if (opened.entered or opened.users) and opened.loop is not asyncio.get_running_loop():
                try:
                    opened.loop.call_soon_threadsafe(listen, what)
                except RuntimeError:  # the loop was closed, and the app was not
                    continue
                return
        listen(what)

    async def open_here(self) -> None:
        """Open the store on the running loop, also when another loop has it open. While the store cannot be
        reached, this is repeated."""
        with _nothing_sent():
            await with_retries(lambda: self._own_store().opened())

    async def enter(self) -> None:
        """Open the store on the running loop and keep it open until the matching `leave`."""
        opened = self._own_store()
        opened.entered += 1
        try:
            await self.open_here()
        except BaseException:
            opened.entered -= 1
            raise

    async def leave(self) -> None:
        """Close the store on the running loop. If no other loop has the store open, the app's own thread ends
        too, unless it is serving a call."""
        opened = self._here()
        if opened is not None:
            opened.entered -= 1
            if opened.entered > 0:
                return
            await self._close(opened)
        with self._lock:
            thread = self._thread
            if thread is None or not thread.idle or any(each != thread.loop for each in self._open):
                return
            self._thread = None
        await self._end(thread)

    def register_user(self, stop: Callable[[], Awaitable[None]]) -> None:
        """A worker or a tail uses the store of the running loop: await `stop` before this store is closed."""
        self._open[asyncio.get_running_loop()].users.add(stop)

    def unregister_user(self, stop: Callable[[], Awaitable[None]]) -> None:
        """The worker or tail has stopped."""
        opened = self._here()
        if opened is not None:
            opened.users.discard(stop)

    async def close(self) -> None:
        """Finish what is under way, then close the store on every loop. The next use opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            stores = [each for loop, each in self._open.items() if not thread or loop != thread.loop]
        for opened in stores:
            await self._close(opened)
        if thread is not None:
            await self._end(thread)
        with self._lock:
            left, self._left = self._left, []
            self._short_lived = False
            self._closed += 1
        for backend in left:
            await backend.close()

    def forget_loops(self) -> None:
        """Give up the stores of all loops except the loop of the app's own thread."""
        with self._lock:
            for opened in list(self._open.values()):
                if self._thread is None or opened.loop is not self._thread.loop:
                    self._give_up(opened)

    def forget_parent(self) -> None:
        """Start again in a forked child process, in which the threads and loops of the parent do not run."""
        self._lock = threading.Lock()
        self._thread = None
        self.forget_loops()
        self._short_lived = False

    # --- open stores -------------------------------------------------------------------------------------

    def _here(self) -> OpenStore | None:
        loop = asyncio._get_running_loop()
        return None if loop is None else self._open.get(loop)

    def _finds_open(self) -> bool:
        """Whether a call of the running loop finds the store open."""
        opened = self._here()
        if opened is None and self._thread is not None:
            opened = self._open.get(self._thread.loop)
        return opened is not None and opened.ready

    def _store(self) -> OpenStore | None:
        """The store of the running loop. None: the app's own thread serves this loop."""
        return self._here() or self._new_store(required=False)

    def _own_store(self) -> OpenStore:
        opened = self._here() or self._new_store(required=True)
        assert opened is not None
        return opened

    def _new_store(self, *, required: bool) -> OpenStore | None:
        refuse_while_loading()
        loop = asyncio.get_running_loop()
        with self._lock:
            for opened in list(self._open.values()):
                if opened.loop.is_closed():
                    self._give_up(opened)
            if not required and not self._may_stay(loop):
                return None
            taken = any(each.backend is self._main for each in self._open.values())
            backend = self._main.for_other_loop() if taken else self._main
            left, self._left = self._left, []
            opened = self._open[loop] = OpenStore(backend, left=left, closers=self._closers)
            return opened

    def _may_stay(self, loop: asyncio.AbstractEventLoop) -> bool:
        if self._thread is not None:
            return loop is self._thread.loop
        return not self._open and not self._short_lived

    def _give_up(self, opened: OpenStore) -> None:
        """Drop a store whose loop is gone. The next opening closes it. It is not used again: it may have
        stopped in the middle of a request, and would wait for the answer for ever."""
        if self._open.get(opened.loop) is opened:
            del self._open[opened.loop]
            self._left.append(opened.backend)
            self._short_lived = True
            if opened.backend is self._main:
                self._main = self._main.for_other_loop()

    # --- closing -----------------------------------------------------------------------------------------

    async def _close(self, opened: OpenStore) -> None:
        """Close a store on its own loop, or give it up when this loop has ended or ends meanwhile. A store
        that is still open after a cancellation stays, for the next `close`."""
        here = opened.loop is asyncio.get_running_loop()
        closed = False
        try:
            if here:
                await opened.close()
                closed = opened.closed
            else:
                closed = await _closed_elsewhere(opened)
        finally:
            with self._lock:
                if (closed or opened.closed) and self._open.get(opened.loop) is opened:
                    del self._open[opened.loop]
                elif not here or (opened.closing and not opened.close_under_way):
                    self._give_up(opened)

    async def _end(self, thread: LoopThread) -> None:
        opened = self._open.get(thread.loop)
        try:
            if opened is not None:
                await self._close(opened)
        finally:
            thread.stop()
        if thread.loop is not asyncio.get_running_loop():
            await thread.ended()

    async def _ask(self, verb: Callable[[StreamRouter], Coroutine[Any, Any, T]]) -> T:
        return await verb(self.backend)


async def _nothing() -> None:
    """Opens the store and does nothing else."""


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """Mark errors as certain: while the store is being opened, nothing of the caller is sent."""
    try:
        yield
    except BackendUnavailable as error:
        error.uncertain = False
        raise


async def _answer(call: Future[T]) -> T:
    """Wait on the running loop for the answer of the app's own thread."""
    try:
        return await asyncio.wrap_future(call)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise AppClosed("the app was closed before it answered") from None


async def _closed_elsewhere(opened: OpenStore) -> bool:
    """Close a store on the loop of another thread. False: that loop ended first."""
    loop, closing = opened.loop, opened.close()
    if not loop.is_running():
        closing.close()
        return False
    try:
        closed = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
    except RuntimeError:  # the loop was closed just now
        closing.close()
        return False
    while not closed.done():
        await asyncio.wait([closed], timeout=CHECK_EVERY)
        if not loop.is_running() and not closed.done():
            return False
    if closed.cancelled():
        return False
    closed.result()
    return True


def _forget_parents() -> None:
    for app_loop in list(_app_loops):
        app_loop.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
