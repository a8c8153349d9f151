"""App: the one object a user makes, composed here from everything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from inspect import signature
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Never, ParamSpec, TypeVar, overload

from headrace.admin import Admin
from headrace.backends import chosen_backend, chosen_url
from headrace.core.backend import Backend
from headrace.core.checks import unknown_option
from headrace.core.clock import Clock, SystemClock
from headrace.core.codec import Codec, checked_codec
from headrace.core.duration import Duration, positive_seconds, seconds
from headrace.core.errors import ConfigurationError
from headrace.core.hints import names_in_sight
from headrace.core.job_log import checked_lines
from headrace.core.message import PriorityName
from headrace.core.names import checked_name
from headrace.core.number import positive_number
from headrace.core.retry import DEFAULT_RETRY, RetryFunction, RetryPolicy, checked_retry
from headrace.core.schedule import CatchUp, Timing
from headrace.core.sending import SendingWrapper
from headrace.core.signals import Signal
from headrace.engine.emitter import Emitter
from headrace.engine.home import Home
from headrace.engine.leases import SHORTEST_LEASE
from headrace.engine.registry import Middleware, Registry
from headrace.engine.resources import bound_lifespan
from headrace.engine.served import chosen_queues, chosen_subscriptions
from headrace.engine.tracing import inherited
from headrace.engine.worker import Worker
from headrace.engine.worker_options import WorkerOptions
from headrace.events.face import Events
from headrace.events.topic import Topic, TopicPattern
from headrace.jobs.face import Jobs
from headrace.jobs.job import Job
from headrace.jobs.options import RunIn, UniqueWindow
from headrace.jobs.queue import Queue, declared_queue
from headrace.jobs.schedules import ScheduleDecorator, Schedules, timing_of
from headrace.jobs.task import AsyncTask, Call, SyncTask, Task, TaskDecorator
from headrace.observability.logs import log_signals
from headrace.sync import Portal, Sync

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
L = TypeVar("L", bound=Callable[..., Any])

MEBIBYTE = 1024 * 1024

#: How long events are kept when nothing else is said.
WEEK = timedelta(days=7)

Durability = Literal["default", "relaxed", "replicated", "fsync"]


class App:
    """Tasks, a store, and the workers that run the one on the other.

    The store is named by a URL, or given as `store=`: one of your own, see `headrace.store`. The URL and the
    options are checked here; the store is opened on first use and closed by `async with app:` or `await
    app.close()`, after which it may be opened again.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Backend | None = None,
        namespace: str = "headrace",
        lifespan: Callable[[App], AbstractAsyncContextManager[Any]]
        | Callable[[], AbstractAsyncContextManager[Any]]
        | None = None,
        codec: Codec | None = None,
        max_payload: int = MEBIBYTE,
        durability: Durability = "default",
        queue_limit: int | None = None,
        result_ttl: Duration = 3600,
        retry: RetryPolicy | RetryFunction = DEFAULT_RETRY,
        job_logs: int = 0,
        clock: Clock | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_option("App()", name, _options_of(App.__init__))
        self.url: str | None = chosen_url(url) if store is None or url is not None else None
        clock = clock or SystemClock()
        self._max_payload = positive_number("max_payload", max_payload, unit="bytes")
        self._result_ttl = seconds("result_ttl", result_ttl)
        backend = chosen_backend(
            self.url,
            store,
            namespace=checked_name("namespace", namespace),
            durability=durability,
            clock=clock,
        )
        self._emitter = Emitter()
        bound = None if lifespan is None else bound_lifespan(lifespan, self)
        self._registry = Registry(bound, checked_lines(job_logs))
        self._home = Home(backend, clock)
        self._home.before_close(self._emitter.settle)
        self._jobs = Jobs(
            home=self._home,
            registry=self._registry,
            emitter=self._emitter,
            codec=checked_codec(codec),
            max_payload=self._max_payload,
            queue_limit=None if queue_limit is None else positive_number("queue_limit", queue_limit),
            result_ttl=self._result_ttl,
            retry=checked_retry(retry),
        )
        self._events = Events(
            home=self._home,
            registry=self._registry,
            emitter=self._emitter,
            codec=codec,
            max_payload=self._max_payload,
            retry=checked_retry(retry),
            inherit=inherited,
        )
        portal = Portal(self._home)
        self.admin: Admin = Admin(
            self._home, self._registry, encode=self._jobs.payload, mark_ttl=self._result_ttl, codec=codec
        )
        self.schedules: Schedules = Schedules(self._home, self._registry, self._jobs)
        self.sync: Sync = Sync(portal, self._jobs, self._events, self.admin, self.schedules)
        log_signals(self._emitter.on)

    def __repr__(self) -> str:
        return f"<App on {self.description}>"

    @property
    def description(self) -> str:
        """The store in a few words, without a password."""
        return self._home.backend.description

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The app's tasks by name."""
        return MappingProxyType(self._jobs.tasks)

    @property
    def declared_topics(self) -> Mapping[str, Topic[Any]]:
        """The topics that the app has declared, by name; `admin.topics()` has those of the store."""
        return MappingProxyType(dict(self._events.topics))

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str = ...,
        queue: str = ...,
        priority: PriorityName = ...,
        retry: RetryPolicy | RetryFunction = ...,
        timeout: Duration | None = ...,
        result_ttl: Duration = ...,
        unique: bool = ...,
        unique_until: UniqueWindow = ...,
        expires: Duration = ...,
        run_in: RunIn = ...,
    ) -> TaskDecorator: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Make a task of a function: `async def` runs on the worker's event loop, `def` in a thread."""
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
        """Run a task, or a function that becomes one, at the times of a cron expression: `@app.cron("0 9 * *
        mon-fri", tz="Europe/London")`. Without `tz` it is UTC; the name is the task's unless it is given."""
        return self._scheduled(timing_of(expression, None, tz, catch_up, jitter), name, names_in_sight(1))

    def every(
        self, interval: Duration, *, catch_up: CatchUp = "skip", jitter: Duration = 0, name: str | None = None
    ) -> ScheduleDecorator:
        """Run a task, or a function that becomes one, every so many seconds, first after one interval."""
        return self._scheduled(timing_of(None, interval, None, catch_up, jitter), name, names_in_sight(1))

    @overload
    def topic(
        self,
        name: str,
        type: type[T],
        *,
        retention: Duration | None = ...,
        max_length: int | None = ...,
        retention_strict: bool = ...,
        idempotency_window: Duration = ...,
        schema_version: int = ...,
        partitions: int | None = ...,
    ) -> Topic[T]: ...
    @overload
    def topic(
        self,
        name: str,
        type: Any = ...,
        *,
        retention: Duration | None = ...,
        max_length: int | None = ...,
        retention_strict: bool = ...,
        idempotency_window: Duration = ...,
        schema_version: int = ...,
        partitions: int | None = ...,
    ) -> Topic[Any]: ...

    def topic(
        self,
        name: str,
        type: Any = Any,
        *,
        retention: Duration | None = WEEK,
        max_length: int | None = None,
        retention_strict: bool = True,
        idempotency_window: Duration = 3600,
        schema_version: int = 1,
        partitions: int | None = None,
    ) -> Topic[Any]:
        """A topic whose events are of this type: `orders = app.topic("orders", OrderPlaced)`.

        Events are kept for `retention` seconds (None: for ever) and `max_length` of them at most, but, unless
        `retention_strict` is False, until every group with a living member has drawn them. `partitions` is
        fixed when the topic is first used.
        """
        return self._events.topic(
            name,
            type,
            retention=retention,
            max_length=max_length,
            retention_strict=retention_strict,
            idempotency_window=idempotency_window,
            schema_version=positive_number("schema_version", schema_version),
            partitions=partitions,
        )

    @overload
    def topics(self, pattern: str, type: type[T]) -> TopicPattern[T]: ...
    @overload
    def topics(self, pattern: str, type: Any = ...) -> TopicPattern[Any]: ...

    def topics(self, pattern: str, type: Any = Any) -> TopicPattern[Any]:
        """Every topic that matches, those made later too: `app.topics("orders.*", OrderEvent)`; `*` stands
        for one dotted segment."""
        return self._events.pattern(pattern, type)

    def queue(self, name: str, *, partitions: int | None = None) -> Queue:
        """Declare a queue that is to be split; of one that is in use `admin.split` changes the number."""
        return declared_queue(self._home.backend, name, partitions)

    async def enqueue(self, call: Call[R]) -> Job[R]:
        """Store one job: `await app.enqueue(add.call(2, 3))`. When this returns, it will be run."""
        return await self._jobs.enqueue(call)

    async def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        """Store many jobs of any tasks, a write for every few hundred; the jobs in the order of the calls."""
        return await self._jobs.enqueue_many(calls)

    def job(self, id: str, *, queue: str | None = None) -> Job[Any]:
        """A handle for an id. With its queue it is found at once, else every queue is asked."""
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
        """A worker for this event loop: `async with` it, or `await` its `run()`.

        By default it serves every queue that the app's tasks name, `default`, and every subscription.
        `queues` and `topics` name those that it serves instead; an empty list: none.
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
            mark_ttl=self._result_ttl,
        )
        return Worker(
            options,
            home=self._home,
            registry=self._registry,
            emitter=self._emitter,
            subscriptions=subscriptions,
        )

    def use(self, middleware: Middleware) -> Middleware:
        """Wrap every run: `async def middleware(run, call_next)`. The first added is the outermost."""
        if not callable(middleware):
            raise ConfigurationError(
                f"middleware is `async def middleware(run, call_next)`, not {middleware!r}"
            )
        self._registry.use(middleware)
        return middleware

    def use_sending(self, wrapper: SendingWrapper) -> None:
        """Enter `wrapper(sending)` around whatever this app enqueues or publishes; what it adds to
        `sending.carried` travels along as headers. For tracing; there can be one."""
        if self._jobs.around is not None:
            raise ConfigurationError("what this app sends is wrapped already")
        self._jobs.around = self._events.around = wrapper

    def on(self, signal: type[Signal]) -> Callable[[L], L]:
        """Listen: `@app.on(signals.JobDied)` over a function or coroutine function that takes the signal."""
        given: object = signal
        if not isinstance(given, type) or not issubclass(given, Signal):
            raise ConfigurationError(f"{signal!r} is no signal; they are in headrace.signals")

        def listen(listener: L) -> L:
            self._emitter.on(signal, listener)
            return listener

        return listen

    async def open(self) -> None:
        """Open the store now instead of on first use. One that is away is waited for, for up to 10 s."""
        await self._home.open_here()

    async def close(self) -> None:
        """Finish what is under way and close the store."""
        await self._home.close()

    async def __aenter__(self) -> App:
        await self._home.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._home.leave()

    def _scheduled(
        self, timing: Timing, name: str | None, local_names: Mapping[str, Any]
    ) -> ScheduleDecorator:
        def declare(function: Any) -> Any:
            return self.schedules.declare(function, timing, name, local_names)

        return declare


def _options_of(function: Callable[..., Any]) -> dict[str, None]:
    return dict.fromkeys(name for name in signature(function).parameters if name not in ("self", "unknown"))
