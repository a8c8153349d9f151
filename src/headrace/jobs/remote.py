"""Tasks by name: enqueues calls of a task whose code is elsewhere."""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar, Unpack

from headrace.core.errors import ConfigurationError
from headrace.core.values.shown_options import shows_options
from headrace.jobs.declaring.declared import Declared
from headrace.jobs.handles.job import Job

from .options import AS_DECLARED, CallOptions, CallOverrides
from .task import Call, Enqueuer, Task

R = TypeVar("R")


class RemoteCall(Call[R], frozen=True):
    """A call of a task that this process knows by name only."""


class RemoteTask(Task[..., Any]):
    """A task by name. The worker that has the task checks the arguments. Made by `app.remote(name)`."""

    def __init__(
        self, declared: Declared, *, enqueuer: Enqueuer, overrides: CallOptions = AS_DECLARED
    ) -> None:
        super().__init__(any_arguments, options=declared.options, enqueuer=enqueuer, overrides=overrides)
        self.declared = declared

    def __repr__(self) -> str:
        return f"<RemoteTask {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConfigurationError(f"the code of {self.name} is not here: use enqueue()")

    def call(self, *args: Any, **kwargs: Any) -> RemoteCall[Any]:
        """A call with these arguments, for `app.enqueue` and `app.enqueue_many`."""
        return RemoteCall(self, args, kwargs, self._overrides)

    async def enqueue(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Store a job that runs the task with these arguments, on a worker that has the task."""
        return await self._enqueuer.enqueue(self.call(*args, **kwargs))

    @shows_options(CallOverrides, CallOptions)
    def with_(self, **options: Unpack[CallOverrides]) -> Self:
        """A copy of this task with other options for its calls; see `Task.with_`."""
        overrides = self._overrides.merged(options)
        return type(self)(self.declared, enqueuer=self._enqueuer, overrides=overrides)

    def belongs_to(self, enqueuer: object) -> bool:
        """Whether this app made it."""
        return self._enqueuer is enqueuer


def any_arguments(*args: Any, **kwargs: Any) -> Any:
    """Stands for a function that is not here: it takes everything."""
