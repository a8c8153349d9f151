"""Turns KeyboardInterrupt and SystemExit of handlers into errors of their jobs. Otherwise asyncio would end
the event loop."""

from __future__ import annotations

import asyncio
import inspect
import opcode
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import CodeType, CoroutineType, FrameType
from typing import Any, TypedDict, TypeVar, Unpack

from headrace.engine.running.run import Run, current_run

T = TypeVar("T")

_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_from_terminal(error: BaseException) -> bool:
    """Whether an error is a real Ctrl-C in a program with a worker. The signal's handler or Python itself
    raises that between any two instructions. A handler that ends its own job uses `raise`."""
    traceback = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    if traceback is None or threading.current_thread() is not threading.main_thread():
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    if code is asyncio.Runner._on_sigint.__code__:  # type: ignore[attr-defined]
        return True
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return default and code.co_code[traceback.tb_lasti] != _RAISE


def guard_tasks() -> Callable[[], None]:
    """Guard the tasks that handlers start on this loop from now on. Returns a function that ends this.

    A task that raises KeyboardInterrupt or SystemExit passes it to the loop, and the loop ends. A guarded
    task raises RuntimeError instead. If its run has already ended, a signal announces the error.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    factory = before if isinstance(before, TaskFactory) else TaskFactory(before)
    if factory is not before:
        loop.set_task_factory(factory)
    factory.users += 1
    return lambda: factory.leave(loop)


class TaskArguments(TypedDict, total=False):
    """What an event loop passes to its task factory. Later versions of Python pass more: it goes on as it
    is."""

    name: str | None
    context: Context | None


class TaskFactory:
    """Guards the tasks of handlers, and then calls the task factory that the loop had before."""

    def __init__(self, inner: Callable[..., asyncio.Future[Any]] | None) -> None:
        self.users = 0
        self._inner = inner

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, Any, T],
        **arguments: Unpack[TaskArguments],
    ) -> asyncio.Future[T]:
        context = arguments.get("context")
        run = current_run.get(None) if context is None else context.get(current_run)
        if run is not None and inspect.iscoroutine(coroutine):
            coroutine = _Guarded(coroutine, run)
        if self._inner is not None:
            return self._inner(loop, coroutine, **arguments)
        return asyncio.Task(coroutine, loop=loop, **arguments)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        self.users -= 1
        if not self.users and loop.get_task_factory() is self:  # else another factory wraps this one
            loop.set_task_factory(self._inner)


class _Guarded(Coroutine[Any, Any, T]):
    """A coroutine of a handler's task. It is a class and not a wrapping coroutine: a wrapper could be
    cancelled before its first step. Then the inner coroutine would never start, and Python warns of that."""

    __slots__ = ("_inner", "_run")

    def __init__(self, inner: CoroutineType[Any, Any, T], run: Run) -> None:
        self._inner = inner
        self._run = run

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except (KeyboardInterrupt, SystemExit) as error:
            raise self._instead_of(error) from error

    def throw(self, error: BaseException | type[BaseException], /) -> Any:  # type: ignore[override]
        try:
            return self._inner.throw(error)
        except (KeyboardInterrupt, SystemExit) as raised:
            raise self._instead_of(raised) from raised

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()

    def _instead_of(self, error: BaseException) -> BaseException:
        if is_from_terminal(error):
            return error
        run = self._run
        if run.ended and run.resources is not None:
            run.resources.left_behind(run.id, run.task, run.queue, error)
        text = f": {error}" if str(error) else ""
        return RuntimeError(f"a task of {run.task} raised {type(error).__name__}{text}")

    # asyncio shows these attributes of a task; anyio reads them to learn the state of the coroutine.

    @property
    def __name__(self) -> str:
        return self._inner.__qualname__

    @property
    def cr_code(self) -> CodeType:
        return self._inner.cr_code

    @property
    def cr_frame(self) -> FrameType | None:
        return self._inner.cr_frame

    @property
    def cr_running(self) -> bool:
        return self._inner.cr_running

    @property
    def cr_suspended(self) -> bool:
        return self._inner.cr_suspended

    @property
    def cr_await(self) -> Any:
        return self._inner.cr_await
