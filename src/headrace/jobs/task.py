"""Tasks and calls: a function that can be enqueued, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import Signature
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from headrace.core.values.shown_options import shows_options

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

    @shows_options(CallOverrides, CallOptions)
    def with_(self, **options: Unpack[CallOverrides]) -> Call[R]:
        """A copy of this call with other options; see `Task.with_`."""
        return msgspec.structs.replace(self, options=self.options.merged(options))

    def __repr__(self) -> str:
        return f"<Call of {self.task.name}>"


class Enqueuer(Protocol):
    """What a task needs from its app."""

    async def enqueue(self, call: Call[R], /) -> Job[R]: ...


class Task(Generic[P, R]):
    """A function that workers can run. Calling the task runs the function here, now."""

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
        if signature is not None:  # some parameters are dependencies, which callers do not give
            self.__signature__ = signature
        self.__doc__ = function.__doc__
        self.__name__: str = getattr(function, "__name__", options.name)
        self.__qualname__ = getattr(function, "__qualname__", options.name)
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        """The name that is stored with each job."""
        return self.options.name

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function here, now, without queue and retries."""
        return self._function(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call with these arguments, for `app.enqueue` and `app.enqueue_many`."""
        return Call(self, args, kwargs, self._overrides)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that runs the function with these arguments: `job = await add.enqueue(2, 3)`.

        When this returns, the job is stored, and a worker will run it.
        """
        return await self._enqueuer.enqueue(Call(self, args, kwargs, self._overrides))

    @shows_options(CallOverrides, CallOptions)
    def with_(self, **options: Unpack[CallOverrides]) -> Self:
        """A copy of this task with other options for its calls: `await add.with_(delay=60).enqueue(2, 3)`.

        `CallOverrides` lists the options.
        """
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
