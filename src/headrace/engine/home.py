"""Where an app has its store open: on which event loops.

The store is opened for an event loop and used there alone. So every loop that stays has a session of its own:
the first that uses the app, one that enters it (`async with app`), and one that a worker runs on. All others,
which may end at any moment, and plain code are served by one long-lived loop in a thread. No call ever
depends on a loop that is not its caller's or ours.
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

from headrace.core.backend import Backend
from headrace.core.clock import AppClock, Clock, SystemClock
from headrace.core.errors import AppClosed, BackendUnavailable

from .loop_thread import LoopThread
from .main_module import refuse_while_loading
from .patience import patiently
from .producer import Producer
from .session import Resident, Session

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Seconds between two looks whether a loop that is to close its session is still there.
LOOK = 0.05

_homes: weakref.WeakSet[Home] = weakref.WeakSet()


class Home:
    """Opens the store on first use, and closes it wherever it is open."""

    def __init__(self, backend: Backend, clock: Clock | None = None) -> None:
        self._main = backend  # the first session has it, any other a twin
        self._own_clock = clock or SystemClock()
        self.clock: AppClock = AppClock(self._own_clock)
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}
        self._short_lived = False  # a loop has ended without closing the app: the next may do so too
        self._left: list[Backend] = []  # stores of such loops, which are still to be closed
        self.declared_topics: set[str] = set()  # those whose rules the store has
        self._thread: LoopThread | None = None
        self._closed = 0  # how often the app was closed
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._lock = threading.Lock()
        _homes.add(self)

    @property
    def backend(self) -> Backend:
        """The store for the running event loop."""
        session = self._here()
        return self._main if session is None else session.backend

    @property
    def producer(self) -> Producer:
        """The same for what is appended to it."""
        return self._sessions[asyncio.get_running_loop()].producer

    @property
    def here(self) -> Session | None:
        """The session of the running loop; None while the store is not open there, and `call` is needed."""
        session = self._sessions.get(asyncio.get_running_loop())
        return session if session is not None and session.ready else None

    @property
    def in_use(self) -> bool:
        """Whether the store is open on a loop that is alive."""
        return any(session.loop.is_running() for session in list(self._sessions.values()))

    def lives_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the store is open on this loop, or about to be."""
        return loop in self._sessions

    @property
    def has_thread(self) -> bool:
        return self._thread is not None

    @contextmanager
    def swapped(self, backend: Backend, clock: Clock) -> Iterator[None]:
        """Use another store and another clock for a while, on loops that end before this does. The app's own
        store is neither opened nor touched meanwhile. For tests."""
        own = self._main, self._sessions, self._left, self._short_lived, self.declared_topics
        self._main, self._sessions, self._left, self._short_lived = backend, {}, [], False
        self.declared_topics = set()
        self.clock.follow(clock)
        try:
            yield
        finally:
            self._main, self._sessions, self._left, self._short_lived, self.declared_topics = own
            self.clock.follow(self._own_clock)

    def before_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Await `closer` on every loop where the store is about to be closed."""
        self._closers.append(closer)

    async def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `function` where the store is open, and bring back what it returns."""
        session = self._session()
        if session is None:
            return await _answer(self.submit(lambda: self.call(function, *args, **kwargs)))
        if not session.ready:
            await session.opened()
        return await function(*args, **kwargs)

    async def repeat(
        self,
        function: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        within: float | None = None,
        waits: bool = False,
        trouble: Callable[[BackendUnavailable], None] | None = None,
    ) -> T:
        """The same for what may be repeated: it is, while the store is away; see `patiently`."""
        closed, session = self._closed, self._here()

        def once() -> Coroutine[Any, Any, T]:
            if self._closed != closed or (session is not None and session.closing):
                # It must not be opened again for this.
                raise AppClosed("the app was closed while somebody waited for its store")
            return self.call(function, *args)

        return await patiently(once, within=within, waits=waits, trouble=trouble)

    async def ask(self, verb: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
        """Repeat one verb of the store: `home.ask(lambda store: store.workers())`."""
        return await self.repeat(self._ask, verb)

    async def carry_out(self, function: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """The same for what must not be repeated as a whole: only the opening of the store is."""
        await self.opened()
        return await self.call(function, *args)

    async def opened(self) -> None:
        """Open the store for the running loop, if that is still to be done; while it is away this is tried
        again."""
        if not self._is_open():
            with _nothing_sent():
                await self.repeat(_nothing)

    def submit(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run `function` on the loop of our own thread."""
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread()
            return self._thread.submit(function(*args, **kwargs))

    def tell(self, listen: Callable[[T], None], what: T) -> None:
        """Call `listen` on the loop that has entered the app or that a worker runs on, where there is one:
        what listeners use belongs there. Else here."""
        for session in list(self._sessions.values()):
            if (session.entered or session.residents) and session.loop is not asyncio.get_running_loop():
                try:
                    session.loop.call_soon_threadsafe(listen, what)
                except RuntimeError:  # it was closed without a word
                    continue
                return
        listen(what)

    async def open_here(self) -> None:
        """Open the store on the running loop, whoever else has it open: a worker lives where it runs. While
        the store is away this is tried again."""
        with _nothing_sent():
            await patiently(lambda: self._own_session().opened())

    async def enter(self) -> None:
        """The same until the matching `leave`."""
        session = self._own_session()
        session.entered += 1
        try:
            await self.open_here()
        except BaseException:
            session.entered -= 1
            raise

    async def leave(self) -> None:
        """Close the store on the running loop. The thread, which may have served others meanwhile, is ended
        with the last session if nobody waits for it just now."""
        session = self._here()
        if session is not None:
            session.entered -= 1
            if session.entered > 0:
                return
            await self._close(session)
        with self._lock:
            thread = self._thread
            if thread is None or not thread.idle or any(each != thread.loop for each in self._sessions):
                return
            self._thread = None
        await self._end(thread)

    def move_in(self, resident: Resident) -> None:
        """A worker lives on this loop now; it is stopped before the store is closed under it."""
        self._sessions[asyncio.get_running_loop()].residents.add(resident)

    def move_out(self, resident: Resident) -> None:
        session = self._here()
        if session is not None:
            session.residents.discard(resident)

    async def close(self) -> None:
        """Finish what is under way, then close the store everywhere. The next use opens it again."""
        with self._lock:
            thread, self._thread = self._thread, None
            sessions = [each for loop, each in self._sessions.items() if not thread or loop != thread.loop]
        for session in sessions:
            await self._close(session)
        if thread is not None:
            await self._end(thread)
        with self._lock:
            left, self._left = self._left, []
            self._short_lived = False
            self._closed += 1
        for backend in left:
            await backend.close()

    def forget_loops(self) -> None:
        """Give up the sessions of all loops but that of our own thread."""
        with self._lock:
            for session in list(self._sessions.values()):
                if self._thread is None or session.loop is not self._thread.loop:
                    self._give_up(session)

    def forget_parent(self) -> None:
        """Begin anew in a child process, where no thread and no loop of the parent's goes on."""
        self._lock = threading.Lock()
        self._thread = None
        self.forget_loops()
        self._short_lived = False

    # --- sessions ----------------------------------------------------------------------------------------

    def _here(self) -> Session | None:
        loop = asyncio._get_running_loop()
        return None if loop is None else self._sessions.get(loop)

    def _is_open(self) -> bool:
        """Whether a call of the running loop would find the store open."""
        session = self._here()
        if session is None and self._thread is not None:
            session = self._sessions.get(self._thread.loop)
        return session is not None and session.ready

    def _session(self) -> Session | None:
        """The session of the running loop; None: our own thread is to be asked."""
        return self._here() or self._new_session(wanted=False)

    def _own_session(self) -> Session:
        session = self._here() or self._new_session(wanted=True)
        assert session is not None
        return session

    def _new_session(self, *, wanted: bool) -> Session | None:
        refuse_while_loading()
        loop = asyncio.get_running_loop()
        with self._lock:
            for session in list(self._sessions.values()):
                if session.loop.is_closed():
                    self._give_up(session)
            if not wanted and not self._may_stay(loop):
                return None
            taken = any(each.backend is self._main for each in self._sessions.values())
            backend = self._main.twin() if taken else self._main
            left, self._left = self._left, []
            session = self._sessions[loop] = Session(backend, left=left, closers=self._closers)
            return session

    def _may_stay(self, loop: asyncio.AbstractEventLoop) -> bool:
        if self._thread is not None:
            return loop is self._thread.loop
        return not self._sessions and not self._short_lived

    def _give_up(self, session: Session) -> None:
        """Its loop is gone. Its store is closed by the next who opens one, and not used again: it may have
        stopped in the middle of something, and wait for that for ever."""
        if self._sessions.get(session.loop) is session:
            del self._sessions[session.loop]
            self._left.append(session.backend)
            self._short_lived = True
            if session.backend is self._main:
                self._main = self._main.twin()

    # --- closing -----------------------------------------------------------------------------------------

    async def _close(self, session: Session) -> None:
        """Close a session on its own loop, or give it up when that is gone, or goes meanwhile."""
        closed = False
        try:
            if session.loop is asyncio.get_running_loop():
                await session.close()
                closed = True
            else:
                closed = await _closed_elsewhere(session)
        finally:
            with self._lock:
                if closed and self._sessions.get(session.loop) is session:
                    del self._sessions[session.loop]
                else:
                    self._give_up(session)

    async def _end(self, thread: LoopThread) -> None:
        session = self._sessions.get(thread.loop)
        try:
            if session is not None:
                await self._close(session)
        finally:
            thread.stop()
        if thread.loop is not asyncio.get_running_loop():
            await thread.ended()

    async def _ask(self, verb: Callable[[Backend], Coroutine[Any, Any, T]]) -> T:
        return await verb(self.backend)


async def _nothing() -> None:
    """Opening the store is all that is wanted."""


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """What the caller wants was not sent while the store was still to be opened."""
    try:
        yield
    except BackendUnavailable as error:
        error.uncertain = False
        raise


async def _answer(call: Future[T]) -> T:
    """Wait on this loop for what the thread answers."""
    try:
        return await asyncio.wrap_future(call)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise AppClosed("the app was closed before it answered") from None


async def _closed_elsewhere(session: Session) -> bool:
    """Have another thread's loop close its session; False: that loop ended before it could."""
    loop, closing = session.loop, session.close()
    if not loop.is_running():
        closing.close()
        return False
    try:
        closed = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
    except RuntimeError:  # it was closed just now
        closing.close()
        return False
    while not closed.done():
        await asyncio.wait([closed], timeout=LOOK)
        if not loop.is_running() and not closed.done():
            return False
    if closed.cancelled():
        return False
    closed.result()
    return True


def _forget_parents() -> None:
    for home in list(_homes):
        home.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
