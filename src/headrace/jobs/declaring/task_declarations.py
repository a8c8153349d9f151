"""The tasks and queues of an app, as they are declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.errors import UnknownTask
from headrace.core.limits.limit import Limit
from headrace.core.messages.message import Stream
from headrace.core.messages.outgoing import Outgoing
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.declared.queue import Queue
from headrace.engine.declared.registry import BatchRule, Handler
from headrace.engine.running.injection.dependencies import needs_of
from headrace.engine.running.injection.injection import provided
from headrace.jobs.options import BatchTaskSettings, TaskOptions, task_options
from headrace.jobs.payload.versions import Upcast
from headrace.jobs.remote import RemoteCall, RemoteTask, any_arguments
from headrace.jobs.sending import not_a_call
from headrace.jobs.task import AsyncTask, BatchTask, Call, Enqueuer, SyncTask, Task

from .call_constraints import QueueLimits
from .declared import Declared, default_name
from .functions import arguments_of, check_function, kept_for, place_of
from .on_dead import death_tasks
from .queue import DeclaredQueues


class TaskDeclarations:
    """Makes tasks of functions. `by_task` has what enqueueing needs of each."""

    def __init__(self, parts: AppParts, *, result_ttl: float, validate: bool) -> None:
        self._store = parts.app_loop.backend
        self._registry = parts.registry
        self._codec = parts.codec
        self._retry = parts.retry
        self._result_ttl = result_ttl
        self._validate = validate
        self._queue_limits: QueueLimits = {}
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.by_task: dict[str, Declared] = {}
        self.queues: DeclaredQueues = DeclaredQueues(parts.registry)

    def declare(
        self,
        function: Callable[..., Any],
        settings: BatchTaskSettings,
        local_names: Mapping[str, Any],
        enqueuer: Enqueuer,
    ) -> Task[Any, Any]:
        """Make a task of a function and register its handler."""
        check_function(function)
        if "name" not in settings:
            settings = {**settings, "name": default_name(function)}
        options = task_options(settings)
        arguments = arguments_of(function, local_names, options)
        is_async = inspect.iscoroutinefunction(function)
        ttl = kept_for(function, options, self._result_ttl)
        declared = Declared(options, arguments, ttl, self._codec, self._queue_limits, validate=self._validate)
        needs = needs_of(function)
        if needs:
            function = provided(function, needs)
        self._registry.add(self._handler(function, declared, is_async=is_async))
        self.by_task[options.name] = declared
        self._registry.limits.add(declared.constraints.figures, f"task {options.name}", options.queue)
        self._registry.has_constraints |= declared.constraints.is_used(options.queue)
        if options.ordered_by is not None:
            self._registry.ordered_queues.add(options.queue)
        kind: type[Task[Any, Any]] = AsyncTask if is_async else SyncTask
        if options.batch is not None:
            kind = BatchTask
        task = self.tasks[options.name] = kind(
            function, options=options, enqueuer=enqueuer, signature=arguments.signature if needs else None
        )
        return task

    def _handler(self, function: Callable[..., Any], declared: Declared, *, is_async: bool) -> Handler:
        options, arguments = declared.options, declared.arguments
        return Handler(
            name=options.name,
            queue=options.queue,
            function=function,
            run_in=place_of(function, options, is_async=is_async),
            decode=declared.decode,
            encode=declared.encode_result,
            decode_result=declared.decode_result,
            retry=options.retry or self._retry,
            own_retry=options.retry is not None,
            timeout=options.timeout or None,
            result_ttl=declared.result_ttl,
            nothing=arguments.nothing if self._codec is None else None,
            decode_bound=None if declared.binding is None else declared.decode_bound,
            encode_bare=arguments.encode,
            decode_bare=arguments.decode,
            limits_in=declared.constraints.names_in,
            batch=options.batch is not None,
            batch_rule=_batch_rule(options),
        )

    def declare_queue(self, queue: Queue) -> Queue:
        """Declare a queue with its options; see `App.queue`."""
        if self.queues.add(queue):
            if queue.hash_tag is not None:
                self._store.use_hash_tag(queue.name, queue.hash_tag)
            if queue.partitions is not None:
                self._store.declare(Stream("queue", queue.name), queue.partitions)
            if queue.limits:
                self._limit_queue(queue.name, queue.limits)
        return queue

    def _limit_queue(self, queue: str, limits: tuple[Limit, ...]) -> None:
        """Declare the limits of a queue, for all tasks whose jobs it gets."""
        figures = [limit.figures(f"queue:{queue}") for limit in limits]
        self._registry.limits.add(figures, f"queue {queue}", queue)
        self._registry.has_constraints = True
        self._queue_limits[queue] = limits
        for declared in self.by_task.values():
            declared.plain = declared.is_plain()

    def add_upcast(self, task: Task[Any, Any], from_version: int, function: Upcast) -> Upcast:
        """Declare how older arguments of a task become those of the next version."""
        self._registry.refuse_while_running(f"an upcast of {task.name!r}")
        return self.by_task[task.name].upcasts.add(from_version, function)

    def resolve(self, outgoing_of: Callable[[Call[Any]], Outgoing]) -> None:
        """Check the annotations of every task, and the tasks that queues name. A worker does this before its
        first job."""
        for declared in self.by_task.values():
            declared.arguments.resolve()
        self._registry.death_tasks = death_tasks(
            self._registry.declared_queues,
            self.tasks,
            lambda task: self.by_task[task].arguments.signature,
            outgoing_of,
        )

    def remote(self, name: str, queue: str, version: int, enqueuer: Enqueuer) -> RemoteTask:
        """A task by name; see `App.remote`. Whether its result is kept is not known here."""
        options = task_options({"name": name, "queue": queue, "version": version})
        arguments = arguments_of(any_arguments, {}, options)
        ttl = max(self._result_ttl, 1.0)
        declared = Declared(options, arguments, ttl, self._codec, self._queue_limits)
        return RemoteTask(declared, enqueuer=enqueuer)

    def of(self, call: Call[Any], enqueuer: Enqueuer) -> Declared:
        if type(call) is not Call:
            return _remotely_declared(call, enqueuer)
        declared = self.by_task.get(call.task.options.name)
        if declared is None:
            raise UnknownTask(f"{call.task.name!r} is not a task of this app")
        return declared


def _remotely_declared(call: object, enqueuer: Enqueuer) -> Declared:
    if not isinstance(call, RemoteCall):
        raise not_a_call(call)
    task = call.task
    if not isinstance(task, RemoteTask) or not task.belongs_to(enqueuer):
        raise UnknownTask(f"{task.name!r} was made by app.remote() of another app")
    return task.declared


def _batch_rule(options: TaskOptions) -> BatchRule | None:
    if options.batch is None:
        return None
    return BatchRule(options.batch, options.batch_wait, options.ordered_by is not None)
