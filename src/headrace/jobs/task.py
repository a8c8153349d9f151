"""Tasks and calls: a function that can be enqueued, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import Signature
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from headrace.core.messages.directives import BatchResult
from headrace.core.values.shown_options import shows_options
from headrace.jobs.handles.job import Job
from headrace.jobs.payload.versions import Upcast

from .options import AS_DECLARED, CallOptions, CallOverrides, TaskOptions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Call(msgspec.Struct, Generic[R], frozen=True):
    """A task with arguments and options: a value that can be kept, passed on and enqueued.

    - `task`: the task
    - `args`: its positional arguments
    - `kwargs`: its named arguments
    - `options`: the options of this call, as `with_` has set them
    """

    task: Task[Any, R]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CallOptions = AS_DECLARED

    @shows_options(CallOverrides, CallOptions)
    def with_(self, **options: Unpack[CallOverrides]) -> Call[R]:
        """A copy of this call with other options; see `Task.with_`."""
        return msgspec.structs.replace(self, options=self.options.merged(options))

    def __hash__(self) -> int:
        # Arguments need not be hashable.
        return hash((self.task, len(self.args), frozenset(self.kwargs)))

    def __repr__(self) -> str:
        return f"<Call of {self.task.name}>"


#: Wraps the function of a task that is called directly. Tests give it a run.
AroundDirectCall = Callable[[TaskOptions, Callable[..., Any]], Callable[..., Any]]


class Enqueuer(Protocol):
    """What a task needs from its app."""

    around_direct_calls: AroundDirectCall | None

    async def enqueue(self, call: Call[R], /) -> Job[R]: ...
    def enqueue_sync(self, call: Call[R], /) -> Job[R]: ...
    def add_upcast(self, task: Task[Any, Any], from_version: int, function: Upcast, /) -> Upcast: ...


class SyncEnqueue(Generic[P, R]):
    """`task.sync`: enqueues calls of the task from plain code."""

    __slots__ = ("_enqueuer", "_task")

    def __init__(self, task: Task[P, R], enqueuer: Enqueuer) -> None:
        self._task = task
        self._enqueuer = enqueuer

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that runs the function with these arguments: `job = add.sync.enqueue(2, 3)`.

        When this returns, the job is stored, and a worker will run it.
        """
        return self._enqueuer.enqueue_sync(self._task.call(*args, **kwargs))


class Task(Generic[P, R]):
    """A function that workers can run. Made by `@app.task`. Calling the task runs the function here, now."""

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
        return self._directly(*args, **kwargs)

    @property
    def _directly(self) -> Callable[..., Any]:
        around = self._enqueuer.around_direct_calls
        return self._function if around is None else around(self.options, self._function)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call with these arguments, for `app.enqueue` and `app.enqueue_many`."""
        return Call(self, args, kwargs, self._overrides)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that runs the function with these arguments: `job = await add.enqueue(2, 3)`.

        When this returns, the job is stored, and a worker will run it.
        """
        return await self._enqueuer.enqueue(Call(self, args, kwargs, self._overrides))

    def upcast(self, *, from_version: int) -> Callable[[Upcast], Upcast]:
        """Read arguments that an older version of the code has sent: `@render.upcast(from_version=1)` on a
        function `(args, kwargs) -> (args, kwargs)` over plain data, which leads to the next version.

        The task names its version with `@app.task(version=2)`. Jobs of version 1 are those that were sent
        before it had one.
        """

        def declare(function: Upcast) -> Upcast:
            return self._enqueuer.add_upcast(self, from_version, function)

        return declare

    @property
    def sync(self) -> SyncEnqueue[P, R]:
        """For plain code: `add.sync.enqueue(2, 3)`, in threads and beside a running event loop."""
        return SyncEnqueue(self, self._enqueuer)

    @shows_options(CallOverrides, CallOptions)
    def with_(self, **options: Unpack[CallOverrides]) -> Self:
        """A copy of this task with other options for its calls: `await add.with_(delay=60).enqueue(2, 3)`.

        An option that is left out has the value of the task. Times are seconds or a timedelta.

        - `queue`: the queue of the job
        - `priority`: `"high"`, `"normal"` or `"low"`
        - `timeout`: how long one run may take; None: as long as it likes
        - `result_ttl`: how long the result is kept; 0: not at all
        - `unique`: while a job with the same arguments, or the same `unique_key`, is there, enqueueing stores
          nothing and returns that job. False switches it off for one call
        - `unique_until`: how long the job is unique: `"started"`, `"finished"` or seconds
        - `on_duplicate`: `"keep"`, `"replace"` or `"raise"`, as for `app.task`
        - `debounce`: the job runs once, so many seconds after the last call
        - `tenant`: in place of what `tenant_by` of the task gives
        - `order_key`: in place of what `ordered_by` of the task gives
        - `limit_keys`: the keys of limits `by` a value, in place of what they give: `{"customer": "7"}`
        - `expires`: how long the job may wait for its first run
        - `delay`: how long the job waits before it may run
        - `at`: when the job may run, a datetime with a time zone; in place of `delay`
        - `retry`: a `RetryPolicy`; it is stored with the job
        - `job_id`: the id of the job; while a job with this id is known, it is stored once
        - `unique_key`: a text in place of the arguments; it implies `unique`
        - `headers`: texts that travel with the job, in `current_job().headers`
        - `transaction`: a connection of yours; the job exists if, and only if, its open transaction commits
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
        coroutine: Coroutine[Any, Any, R] = self._directly(*args, **kwargs)
        return coroutine


class SyncTask(Task[P, R]):
    """The task of a plain function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self._directly(*args, **kwargs)
        return value


class BatchTask(Task[[T], R], Generic[T, R]):
    """The task of a function that takes a list. A job has one element of it: `await index.enqueue(doc)`."""

    def __call__(self, items: list[T], /) -> Any:  # type: ignore[override]
        """Run the function here, now, with a whole list."""
        return self._directly(items)


class BatchTaskDecorator(Protocol):
    """What `app.task(batch=...)` returns."""

    @overload
    def __call__(self, function: Callable[[list[T]], Coroutine[Any, Any, list[R]]], /) -> BatchTask[T, R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, BatchResult | None]], /
    ) -> BatchTask[T, None]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], list[R]], /) -> BatchTask[T, R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], BatchResult | None], /) -> BatchTask[T, None]: ...


class TaskDecorator(Protocol):
    """What `app.task(...)` with options returns."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
