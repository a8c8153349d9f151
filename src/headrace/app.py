"""`App`: the one object that a user makes. It is composed here from all other parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import signature
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Never, ParamSpec, TypeVar, Unpack, overload

from headrace.core.crypto.encrypted import EncryptedCodec
from headrace.core.crypto.signed import SignedCodec
from headrace.core.errors import ConfigurationError
from headrace.core.messages.job_log import checked_lines
from headrace.core.messages.retry import DEFAULT_RETRY, RetryFunction, RetryPolicy, checked_retry
from headrace.core.messages.sending import SendingWrapper
from headrace.core.runtime.clock import SystemClock, TimeSource
from headrace.core.schedules.schedule import CatchUp, Timing
from headrace.core.signals import Signal
from headrace.core.store import Store
from headrace.core.values.annotations import names_in_sight
from headrace.core.values.checks import unknown_option
from headrace.core.values.codec import Codec, binding, checked_codec
from headrace.core.values.credentials import Credentials
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.names import checked_name
from headrace.core.values.shown_options import shows_options
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_names import chosen_queues, chosen_subscriptions
from headrace.engine.options import WorkerOptions
from headrace.engine.registry import Middleware, Registry
from headrace.engine.running.injection.resources import bound_lifespan
from headrace.engine.streams import StreamRouter
from headrace.engine.upkeep.leases import SHORTEST_LEASE
from headrace.engine.worker import Worker
from headrace.events.events import Events
from headrace.events.options import TopicSettings, topic_options
from headrace.events.topic import Topic, TopicPattern
from headrace.jobs.job import Job
from headrace.jobs.jobs import Jobs
from headrace.jobs.options import TaskOptions, TaskSettings
from headrace.jobs.queue import Queue, declared_queue
from headrace.jobs.schedules import ScheduleDecorator, Schedules, timing_of
from headrace.jobs.sending import EnqueueHooks
from headrace.jobs.task import AsyncTask, Call, SyncTask, Task, TaskDecorator
from headrace.observability.logs import log_signals

from .admin import Admin
from .stores import chosen_store, chosen_url
from .sync import Portal, Sync

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
L = TypeVar("L", bound=Callable[..., Any])

MEBIBYTE = 1024 * 1024

Durability = Literal["default", "relaxed", "replicated", "fsync"]


class App:
    """Tasks, a store, and the workers that run the one on the other.

    The store is named by a URL, or given as `store=`: one of your own, see `headrace.store`. The URL and the
    options are checked here; the store is opened on first use and closed by `async with app:` or `await
    app.close()`, after which it may be opened again.

    `codec` changes payloads on their way to the store, as `SignedCodec` and `EncryptedCodec` do.
    `credentials` is a function that gives the user and the password for each new connection to a server.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        namespace: str = "headrace",
        lifespan: Callable[[App], AbstractAsyncContextManager[Any]]
        | Callable[[], AbstractAsyncContextManager[Any]]
        | None = None,
        codec: Codec | SignedCodec | EncryptedCodec | None = None,
        max_payload: int = MEBIBYTE,
        durability: Durability = "default",
        queue_limit: int | None = None,
        result_ttl: Duration = 3600,
        retry: RetryPolicy | RetryFunction = DEFAULT_RETRY,
        job_logs: int = 0,
        credentials: Credentials | None = None,
        clock: TimeSource | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_option("App()", name, _options_of(App.__init__))
        self.url: str | None = chosen_url(url) if store is None or url is not None else None
        clock = clock or SystemClock()
        self._max_payload = positive_number("max_payload", max_payload, unit="bytes")
        self._result_ttl = seconds("result_ttl", result_ttl)
        chosen = chosen_store(
            self.url,
            store,
            namespace=checked_name("namespace", namespace),
            durability=durability,
            clock=clock,
            credentials=credentials,
        )
        self._emitter = Emitter()
        bound = None if lifespan is None else bound_lifespan(lifespan, self)
        checked = checked_codec(codec)
        self._registry = Registry(bound, checked_lines(job_logs), binding(checked))
        self._app_loop = AppLoop(StreamRouter(chosen), clock)
        self._app_loop.before_close(self._emitter.settle)
        parts = AppParts(
            app_loop=self._app_loop,
            registry=self._registry,
            emitter=self._emitter,
            codec=checked,
            max_payload=self._max_payload,
            retry=checked_retry(retry),
        )
        self._jobs = Jobs(
            parts,
            queue_limit=None if queue_limit is None else positive_number("queue_limit", queue_limit),
            result_ttl=self._result_ttl,
        )
        self._events = Events(parts)
        portal = Portal(self._app_loop)
        self.admin: Admin = Admin(
            self._app_loop,
            self._registry,
            edit_envelope=self._jobs.edited,
            end_record_ttl=self._result_ttl,
            codec=checked,
        )
        self.schedules: Schedules = Schedules(self._app_loop, self._registry, self._jobs)
        self.sync: Sync = Sync(portal, self._jobs, self._events, self.admin, self.schedules)
        log_signals(self._emitter.on)

    def __repr__(self) -> str:
        return f"<App on {self.description}>"

    @property
    def description(self) -> str:
        """The store in a few words, without a password."""
        return self._app_loop.backend.description

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The tasks of the app by name."""
        return MappingProxyType(self._jobs.tasks)

    @property
    def declared_topics(self) -> Mapping[str, Topic[Any]]:
        """The topics that the app has declared, by name. `admin.topics()` lists those of the store."""
        return MappingProxyType(dict(self._events.topics))

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, **options: Unpack[TaskSettings]) -> TaskDecorator: ...

    @shows_options(TaskSettings, TaskOptions)  # type: ignore[misc]
    def task(self, function: Any = None, /, **options: Unpack[TaskSettings]) -> Any:
        """Make a task from a function: `@app.task`, or with options `@app.task(queue="reports",
        timeout=300)`.

        An `async def` runs on the event loop of the worker, a plain function in a thread, or in a child
        process with `run_in="process"`. `TaskSettings` lists the options. A function without `-> None` keeps
        its result for `result_ttl`.
        """
        local_names = names_in_sight(1)
        if function is not None:
            return self._jobs.declare(function, options, local_names)

        def declare(function: Callable[..., Any]) -> Any:
            return self._jobs.declare(function, options, local_names)

        return declare

    def cron(
        self,
        expression: str,
        *,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
        name: str | None = None,
    ) -> ScheduleDecorator:
        """Run a task at the times of a cron expression: `@app.cron("0 9 * * mon-fri", tz="Europe/London")`.

        The decorator takes a task, or a function, which becomes a task. The time zone is UTC by default.
        `catch_up` says what happens to times at which no worker ran: `"skip"`, `"one"` or `"all"`. `jitter`
        delays each job by a random time of at most so many seconds. The name of the schedule is by default
        the name of the task.
        """
        return self._scheduled(timing_of(expression, None, tz, catch_up, jitter), name, names_in_sight(1))

    def every(
        self, interval: Duration, *, catch_up: CatchUp = "skip", jitter: Duration = 0, name: str | None = None
    ) -> ScheduleDecorator:
        """Run a task every so many seconds, first after one interval: `@app.every(30)`. See `cron` for the
        options."""
        return self._scheduled(timing_of(None, interval, None, catch_up, jitter), name, names_in_sight(1))

    @overload
    def topic(self, name: str, type: type[T], **options: Unpack[TopicSettings]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, type: Any = ..., **options: Unpack[TopicSettings]) -> Topic[Any]: ...

    @shows_options(TopicSettings, topic_options)
    def topic(self, name: str, type: Any = Any, **options: Unpack[TopicSettings]) -> Topic[Any]:
        """A topic whose events are of this type: `orders = app.topic("orders", OrderPlaced)`.

        Events are kept for `retention` (None: for ever), and at most `max_length` of them. Unless
        `retention_strict` is False, an event is also kept until every group with a living member has drawn
        it. `partitions` is fixed when the topic is first used. `TopicSettings` lists the options.
        """
        return self._events.topic(name, type, **options)

    @overload
    def topics(self, pattern: str, type: type[T]) -> TopicPattern[T]: ...
    @overload
    def topics(self, pattern: str, type: Any = ...) -> TopicPattern[Any]: ...

    def topics(self, pattern: str, type: Any = Any) -> TopicPattern[Any]:
        """Every topic that matches, also topics that are made later: `app.topics("orders.*", OrderEvent)`.
        `*` stands for one dotted segment."""
        return self._events.pattern(pattern, type)

    def queue(self, name: str, *, partitions: int | None = None) -> Queue:
        """Declare a queue with its number of parts. For a queue that is in use, `admin.split` changes this
        number."""
        return declared_queue(self._app_loop.backend, name, partitions)

    async def enqueue(self, call: Call[R]) -> Job[R]:
        """Store one job: `await app.enqueue(add.call(2, 3))`.

        When this returns, the job is stored, and a worker will run it.
        """
        return await self._jobs.enqueue(call)

    async def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        """Store many jobs of any tasks, a few hundred with each write.

        The jobs are in the order of the calls. When the arguments of one call are refused, nothing is stored.
        """
        return await self._jobs.enqueue_many(calls)

    def job(self, id: str, *, queue: str | None = None) -> Job[Any]:
        """A handle for a job id. Without `queue`, each question goes to every queue of the store."""
        return Job(id, self._jobs.lookup, queue=queue)

    def worker(
        self,
        *,
        queues: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        concurrency: int = 100,
        children: int | None = None,
        lease: Duration = 15,
        grace: Duration = 25,
        **unknown: Never,
    ) -> Worker:
        """A worker for this event loop: `async with app.worker():`, or `await app.worker().run()`.

        By default it serves every queue that the tasks of the app name, the queue `default`, and every
        subscription. `queues` and `topics` name those that it serves instead; an empty list means none.
        `concurrency` is the number of jobs and events that run at a time, `children` the number of processes
        for `run_in="process"`. `lease` is the time after which others take over the work of a worker that
        died, `grace` the time that running work has at shutdown.
        """
        for name in unknown:
            raise unknown_option("worker()", name, _options_of(App.worker))
        self._jobs.resolve()
        self._events.resolve()
        subscriptions = chosen_subscriptions(self._registry, topics)
        options = WorkerOptions(
            queues=chosen_queues(self._registry, queues, required=not subscriptions),
            concurrency=positive_number("concurrency", concurrency),
            children=positive_number("children", children or os.cpu_count() or 1),
            lease=positive_seconds("lease", lease, least=SHORTEST_LEASE),
            grace=seconds("grace", grace),
            max_payload=self._max_payload,
            end_record_ttl=self._result_ttl,
        )
        return Worker(
            options,
            app_loop=self._app_loop,
            registry=self._registry,
            emitter=self._emitter,
            subscriptions=subscriptions,
        )

    def use(self, middleware: Middleware) -> Middleware:
        """Wrap every run: `async def middleware(run, call_next)`. The first one added is the outermost."""
        if not callable(middleware):
            raise ConfigurationError(
                f"middleware is `async def middleware(run, call_next)`, not {middleware!r}"
            )
        self._registry.use(middleware)
        return middleware

    def use_sending(self, wrapper: SendingWrapper) -> None:
        """Enter `wrapper(sending)` around everything that this app enqueues or publishes. What the wrapper
        adds to `sending.carried` travels as headers. This is for tracing; an app has at most one wrapper."""
        if self._events.around is not None:
            raise ConfigurationError("this app has a sending wrapper already")
        self._events.around = wrapper
        self._jobs.around = self._jobs.around or EnqueueHooks()
        self._jobs.around.sending = wrapper

    def on(self, signal: type[Signal]) -> Callable[[L], L]:
        """Listen to signals: `@app.on(signals.JobDied)` on a function or coroutine function of one signal."""
        given: object = signal
        if not isinstance(given, type) or not issubclass(given, Signal):
            raise ConfigurationError(f"{signal!r} is not a signal; signals are in headrace.signals")

        def listen(listener: L) -> L:
            self._emitter.on(signal, listener)
            return listener

        return listen

    async def open(self) -> None:
        """Open the store now instead of on first use. While it cannot be reached, this is repeated for up to
        10 s."""
        await self._app_loop.open_here()

    async def close(self) -> None:
        """Finish what is under way and close the store. The next use opens it again."""
        await self._app_loop.close()

    async def __aenter__(self) -> App:
        await self._app_loop.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._app_loop.leave()

    def _scheduled(
        self, timing: Timing, name: str | None, local_names: Mapping[str, Any]
    ) -> ScheduleDecorator:
        def declare(function: Any) -> Any:
            return self.schedules.declare(function, timing, name, local_names)

        return declare


def _options_of(function: Callable[..., Any]) -> dict[str, None]:
    return dict.fromkeys(name for name in signature(function).parameters if name not in ("self", "unknown"))
