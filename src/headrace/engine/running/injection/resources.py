"""Holds the resources of jobs: the app's lifespan, and the dependencies of their functions.

A plain factory runs where its task runs: on the event loop, in the task's thread, or in the child process. An
asynchronous factory always runs on the event loop, and a thread waits for it. With the worker's scope, an
asynchronous factory runs on the event loop and a plain one in a thread of its own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    _AsyncGeneratorContextManager,
    _GeneratorContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import Any, Literal, NoReturn, ParamSpec, Protocol, TypeVar

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.daemon_thread import in_daemon_thread

from .dependencies import Need

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds to leave all resources after `hurry`.
HURRIED = 5.0

#: Makes the context manager that a worker enters once.
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]

#: Runs a coroutine on the event loop, and returns its value.
Carry = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


def bound_lifespan(function: object, app: object) -> Lifespan:
    """A user's lifespan, which takes the app or nothing, as a function without parameters."""
    if not callable(function):
        raise ConfigurationError(f"a lifespan is an async context manager's function, not {function!r}")
    make = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
    try:
        inspect.signature(function).bind(app)
    except TypeError:
        return make
    return functools.partial(make, app)


class HeldResource:
    """A context manager that is entered and left in one task of its own.

    Task groups and cancel scopes require that, and a lifespan often has them around its `yield`.
    """

    def __init__(
        self,
        manager: AbstractAsyncContextManager[Any],
        when_entered: Callable[[HeldResource], None] = lambda held: None,
    ) -> None:
        self._manager = manager
        self._when_entered = when_entered
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[Any] = loop.create_future()
        self._leave: asyncio.Future[BaseException | None] = loop.create_future()
        self.task: asyncio.Task[None] = loop.create_task(self._hold())

    async def value(self) -> Any:
        """The value of the context manager. Raises its error if it could not be entered."""
        return await asyncio.shield(self._entered)

    @property
    def failed(self) -> bool:
        """Whether it could not be entered."""
        return self._entered.done() and (self._entered.cancelled() or self._entered.exception() is not None)

    async def leave(self, error: BaseException | None = None) -> BaseException | None:
        """Leave the context manager with `error`. Returns the error that leaving it raised."""
        if not self._leave.done():
            self._leave.set_result(error)
        try:
            await asyncio.wait([self.task])
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        return None if self.task.cancelled() else self.task.exception()

    async def _hold(self) -> None:
        try:
            value = await self._manager.__aenter__()
        except BaseException as error:
            if not self._entered.done():
                self._entered.set_exception(_settable(error))
                self._entered.exception()  # retrieved, so that asyncio does not warn when no caller waits
            return
        self._when_entered(self)
        if not self._entered.done():
            self._entered.set_result(value)
        try:
            reason = await self._leave
        except asyncio.CancelledError as cancelled:  # by a task group in it, after one of its tasks failed
            reason = cancelled
        try:
            if reason is None:
                await self._manager.__aexit__(None, None, None)
            else:
                await self._manager.__aexit__(type(reason), reason, reason.__traceback__)
        except (KeyboardInterrupt, SystemExit) as error:  # these would end the loop
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


class Resources:
    """The resources that one worker, or one child process, holds for its jobs."""

    def __init__(
        self,
        *,
        lifespan: Lifespan | None = None,
        announce: Callable[[str, BaseException], None],
        left_behind: Callable[[str, str, str, BaseException], None] = lambda id, task, queue, error: None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.state: Any = None
        self.left_behind = left_behind  # reports the error of a task that outlived its job: id, task, queue
        self._lifespan = lifespan
        self._announce = announce
        self._idle_loop = loop  # of a child process; it stands still while a plain function runs
        self._loop: asyncio.AbstractEventLoop | None = loop
        self._closed = False
        self._entering: set[HeldResource] = set()
        self._entered: list[HeldResource] = []
        self._shared: dict[Callable[..., Any], HeldResource] = {}

    async def open(self) -> None:
        """Enter the lifespan."""
        self._loop = asyncio.get_running_loop()
        if self._lifespan is None:
            return
        held = self._hold("the lifespan", self._lifespan())
        try:
            self.state = await held.value()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self, hurry: asyncio.Event | None = None) -> None:
        """Leave all resources, the latest first, and announce errors. After `hurry` this takes at most
        `HURRIED` seconds."""
        leaving = asyncio.ensure_future(self._leave())
        hurried = asyncio.ensure_future(_hurried(hurry or asyncio.Event()))
        try:
            await asyncio.wait([leaving, hurried], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            hurried.cancel()
            await asyncio.gather(leaving, hurried, return_exceptions=True)
            for held in self._entered:  # those that were not left in time
                held.task.cancel()

    async def _leave(self) -> None:
        self._closed = True
        while self._entering:  # a job was interrupted while its resource was being made
            tasks = [held.task for held in self._entering]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
        while self._entered:
            await self._entered.pop().leave()
        self._shared.clear()
        self.state = None

    async def shared(self, need: Need) -> Any:
        """A value with the worker's scope. The first request makes it, for all."""
        held = self._shared.get(need.factory)
        if held is None or held.failed:
            if self._closed:
                raise RuntimeError("the worker has stopped, and provides no more")
            name = getattr(need.factory, "__qualname__", repr(need.factory))
            held = self._shared[need.factory] = self._hold(name, self._making(need))
        return await held.value()

    def carry_from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and wait for it in this thread."""
        if self._idle_loop is not None:
            return self._idle_loop.run_until_complete(coroutine)
        assert self._loop is not None
        if asyncio._get_running_loop() is self._loop:
            refuse_to_wait(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _hold(self, name: str, manager: AbstractAsyncContextManager[Any]) -> HeldResource:
        held = HeldResource(manager, when_entered=self._note)
        self._entering.add(held)
        held.task.add_done_callback(functools.partial(self._ended, name, held))
        return held

    def _note(self, held: HeldResource) -> None:
        # They are kept in the order of entry: a resource is entered after those that it needs.
        self._entering.discard(held)
        self._entered.append(held)

    def _ended(self, name: str, held: HeldResource, task: asyncio.Task[None]) -> None:
        self._entering.discard(held)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._announce(name, error)

    @asynccontextmanager
    async def _making(self, need: Need) -> Any:
        async with AsyncExitStack() as stack:
            arguments = {each.name: await self.shared(each) for each in need.needs}
            value = await self._call(need.factory, **arguments)
            if (plain := _as_plain_manager(value)) is not None:
                yield await stack.enter_async_context(_Threaded(plain, self._call))
            elif (manager := _as_async_manager(value)) is not None:
                yield await stack.enter_async_context(manager)
            else:
                yield await value if inspect.iscoroutine(value) else value

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function in a thread, so that it does not block the event loop. A child process calls
        it directly: its loop has nothing else to do."""
        asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        if self._idle_loop is not None or asynchronous:
            return function(*args, **kwargs)
        return await in_daemon_thread(functools.partial(function, *args, **kwargs))


class CallPlain(Protocol):
    """Calls a plain function, maybe in a thread."""

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


class _Threaded(AbstractAsyncContextManager[Any]):
    """A plain context manager that is entered and left through `call`."""

    def __init__(self, manager: AbstractContextManager[Any], call: CallPlain) -> None:
        self._manager = manager
        self._call = call

    async def __aenter__(self) -> Any:
        return await self._call(self._manager.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._call(self._manager.__exit__, kind, error, traceback)


class _Carried(AbstractAsyncContextManager[Any]):
    """An asynchronous context manager that lives on the event loop while its user is in a thread."""

    def __init__(self, manager: AbstractAsyncContextManager[Any], carry: Carry) -> None:
        self._manager = manager
        self._carry = carry

    async def __aenter__(self) -> Any:
        return await self._carry(self._enter())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raised = await self._carry(self._held.leave(error))
        if raised is not None and raised is not error:
            raise raised

    async def _enter(self) -> Any:
        self._held = HeldResource(self._manager)
        return await self._held.value()


class JobScope(AsyncExitStack):
    """The dependencies of one run. Each is made once, and all are cleaned up at the end of the run.

    `resources` belong to the worker; None: there is no worker, and everything is made for this run.
    """

    def __init__(self, resources: Resources | None, carry: Carry | None = None) -> None:
        super().__init__()
        self._resources = resources
        self._carry = carry
        self._made: dict[Callable[..., Any], Any] = {}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        await super().__aexit__(kind, error, traceback)
        return False  # a cleanup that suppresses the error does not make a failed job succeed

    async def provide(self, needs: tuple[Need, ...]) -> dict[str, Any]:
        return {need.name: await self._value(need) for need in needs}

    async def _value(self, need: Need) -> Any:
        if need.scope == "worker" and self._resources is not None:
            return await self._on_loop(self._resources.shared(need))
        if need.factory not in self._made:
            self._made[need.factory] = await self._make(need)
        return self._made[need.factory]

    async def _make(self, need: Need) -> Any:
        value = need.factory(**await self.provide(need.needs))
        if (plain := _as_plain_manager(value)) is not None:
            return self.enter_context(plain)
        if (manager := _as_async_manager(value)) is not None:
            carried = manager if self._carry is None else _Carried(manager, self._carry)
            return await self.enter_async_context(carried)
        return await self._on_loop(value) if inspect.iscoroutine(value) else value

    async def _on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await (coroutine if self._carry is None else self._carry(coroutine))


def refuse_to_wait(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise: a plain function on the event loop needs a dependency that only this blocked loop could make."""
    coroutine.close()
    raise RuntimeError("an asynchronous dependency cannot be waited for on the event loop itself")


async def _hurried(hurry: asyncio.Event) -> None:
    await hurry.wait()
    await asyncio.sleep(HURRIED)


def _as_plain_manager(value: Any) -> AbstractContextManager[Any] | None:
    if inspect.isgenerator(value):
        return contextmanager(lambda: value)()
    return value if isinstance(value, _GeneratorContextManager) else None


def _as_async_manager(value: Any) -> AbstractAsyncContextManager[Any] | None:
    if inspect.isasyncgen(value):
        return asynccontextmanager(lambda: value)()
    return value if isinstance(value, _AsyncGeneratorContextManager) else None


def _settable(error: BaseException) -> BaseException:
    """The error for a future. A future does not accept StopIteration."""
    return RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
