"""Tasks and calls: a function that can be enqueued, and one wish to run it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import Signature
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from .job import Job
from .options import AS_DECLARED, CallOptions, CallOverrides, TaskOptions

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Call(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """A task with arguments and options: a value that can be kept, passed on and enqueued."""

    task: Task[Any, R]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CallOptions = AS_DECLARED

    def with_(self, **options: Unpack[CallOverrides]) -> Call[R]:
        """The same call with other options; see `Task.with_`."""
        return msgspec.structs.replace(self, options=self.options.merged(options))

    def __repr__(self) -> str:
        return f"<Call of {self.task.name}>"


class Enqueuer(Protocol):
    """What a task needs of its app."""

    async def enqueue(self, call: Call[R], /) -> Job[R]: ...


class Task(Generic[P, R]):
    """A function that can be run later, elsewhere. Calling it runs it here and now."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        options: TaskOptions,
        enqueuer: Enqueuer,
        overrides: CallOptions = AS_DECLARED,
        signature: Signature | None = None,
    ) -> None:
        self.options = options
        self._function = function
        self._enqueuer = enqueuer
        self._overrides = overrides
        self.__wrapped__ = function
        if signature is not None:  # some of the function's parameters are dependencies, which nobody sends
            self.__signature__ = signature
        self.__doc__ = function.__doc__
        self.__name__: str = getattr(function, "__name__", options.name)
        self.__qualname__ = getattr(function, "__qualname__", options.name)
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        return self.options.name

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function here, now: no queue, no retries."""
        return self._function(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The wish to run it with these arguments, for `app.enqueue` and `app.enqueue_many`."""
        return Call(self, args, kwargs, self._overrides)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Have a worker run it with these arguments. When this returns, the job is stored."""
        return await self._enqueuer.enqueue(Call(self, args, kwargs, self._overrides))

    def with_(self, **options: Unpack[CallOverrides]) -> Self:
        """The same task with other options for the next calls: delay, at, queue, priority, retry, timeout,
        job_id, unique, unique_key, unique_until, expires, headers, result_ttl."""
        return type(self)(
            self._function,
            options=self.options,
            enqueuer=self._enqueuer,
            overrides=self._overrides.merged(options),
            signature=getattr(self, "__signature__", None),
        )


class AsyncTask(Task[P, R]):
    """The task of an `async def`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self._function(*args, **kwargs)
        return coroutine


class SyncTask(Task[P, R]):
    """The task of a plain function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self._function(*args, **kwargs)
        return value


class TaskDecorator(Protocol):
    """What `app.task(...)` with options returns."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
