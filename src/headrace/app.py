"""`App`: the one object that a user makes. It is composed here from all other parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal, Never, ParamSpec, TypeVar, overload

from headrace.core.crypto.encrypted import EncryptedCodec
from headrace.core.crypto.signed import SignedCodec
from headrace.core.encoding.codec import Codec, binding, checked_codec
from headrace.core.encoding.own_types import Encoders, add_encoders
from headrace.core.errors import ConfigurationError
from headrace.core.messages.job_log import checked_lines
from headrace.core.messages.retry import DEFAULT_RETRY, RetryFunction, RetryPolicy, checked_retry
from headrace.core.messages.sending import SendingWrapper
from headrace.core.runtime.clock import SystemClock, TimeSource
from headrace.core.signals import Signal
from headrace.core.store import Store
from headrace.core.values.checks import checked_id, flag, unknown_option
from headrace.core.values.credentials import Credentials
from headrace.core.values.durations import Duration, positive_seconds, seconds
from headrace.core.values.names import checked_name
from headrace.core.values.whole_numbers import positive_number
from headrace.engine.app_loop.app_loop import AppLoop
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.declared.queue import Queue
from headrace.engine.declared.registry import Middleware, Registry
from headrace.engine.declared.subscription import Subscription
from headrace.engine.emitter import Emitter
from headrace.engine.history.keeping import checked_history
from headrace.engine.intake.served_names import QueueNames, chosen_queues, chosen_slots, chosen_subscriptions
from headrace.engine.running.injection.resources import bound_lifespan
from headrace.engine.streams import StreamRouter
from headrace.engine.transactions.writer import TransactionWriter
from headrace.engine.upkeep.leases import SHORTEST_LEASE
from headrace.engine.worker.options import WorkerOptions
from headrace.engine.worker.worker import Worker
from headrace.events.events import Events
from headrace.events.topic import Topic
from headrace.jobs.handles.job import Job
from headrace.jobs.handles.results import results_of
from headrace.jobs.jobs import Jobs
from headrace.jobs.scheduling.schedules import Schedules
from headrace.jobs.sending import EnqueueHooks, within
from headrace.jobs.task import Call, Task
from headrace.observability.logs import log_signals
from headrace.stores.outbox import chosen_outbox, own_sqlite_file

from .admin import Admin
from .declarations import AppDeclarations
from .stores import chosen_store, chosen_url
from .sync import Portal, Sync

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
L = TypeVar("L", bound=Callable[..., Any])

MEBIBYTE = 1024 * 1024

Durability = Literal["default", "relaxed", "replicated", "fsync"]


class App(AppDeclarations):
    """Tasks, topics and schedules, a store, and workers: `app = App("redis://localhost:6379/0")`.

    The URL and the options are checked here. The store is opened on first use, and closed by `async with
    app:` or `await app.close()`, after which it may be opened again.

    - `url`: the store: `memory://`, `sqlite:///jobs.db`, `postgresql://…`, `redis://…`, `rediss://…`,
      `valkey://…`, `unix://…`, `redis+sentinel://…` or `redis+cluster://…`. None: what the variable
      `HEADRACE_URL` says, else `sqlite:///headrace.db` in the working directory
    - `store`: a store of your own in place of a URL; see `headrace.store`
    - `namespace`: apps with different namespaces share a server and do not see each other
    - `lifespan`: an async context manager, as a function of the app or of nothing. A worker enters it before
      its first job; what it yields is `current_job().state`
    - `codec`: changes payloads on their way to the store: `SignedCodec`, `EncryptedCodec`, or your own
      `Codec`
    - `encoders`: types of your own: `{Point: (to_builtin, from_builtin)}`, a function that makes plain data
      of a value, and one that makes the value again. They hold for all apps of this process
    - `validate`: an enqueue refuses arguments that the worker could not decode. False leaves the check to the
      worker
    - `max_payload`: the largest payload in bytes, for producers and workers. The default is 1 MiB
    - `durability`: what a store must have done before `enqueue` returns: `"default"`, `"relaxed"` (SQLite,
      PostgreSQL), `"replicated"` (PostgreSQL, Redis) or `"fsync"` (Redis). The page of each store says more
    - `queue_limit`: how many jobs may be queued and scheduled in a queue; then `enqueue` raises `QueueFull`.
      None: no limit
    - `result_ttl`: how long results are kept, and how long it is known how a job ended; tasks may name their
      own
    - `retry`: the policy of tasks that name none. The default is 3 retries, exponential from 1 s
    - `job_logs`: how many lines that each job logs are kept with the job; 0: none, at most 1000
    - `history`: how many ended jobs of each queue are kept to be read. "all" keeps every job, 0 keeps none
    - `history_ttl`: how long they are kept at most. None: as long as there is room
    - `outbox`: the URL of a database of yours, for `transaction=`: what is written there in your transactions
      is relayed by the workers of the app. None: there is none
    - `credentials`: a function that gives the user and the password for each new connection to a server
    - `clock`: the clock of a memory or SQLite store, for tests. None: the clock of the machine
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
        encoders: Encoders | None = None,
        validate: bool = True,
        max_payload: int = MEBIBYTE,
        durability: Durability = "default",
        queue_limit: int | None = None,
        result_ttl: Duration = 3600,
        retry: RetryPolicy | RetryFunction = DEFAULT_RETRY,
        history: int | Literal["all"] = 1000,
        history_ttl: Duration | None = None,
        job_logs: int = 0,
        outbox: str | None = None,
        credentials: Credentials | None = None,
        clock: TimeSource | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_option("App()", name, _options_of(App.__init__))
        self.url: str | None = chosen_url(url) if store is None or url is not None else None
        clock = clock or SystemClock()
        if encoders is not None:
            add_encoders(encoders)
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
        self._history = checked_history(history, history_ttl, checked)
        self._registry = Registry(bound, checked_lines(job_logs), binding(checked))
        self._app_loop = AppLoop(StreamRouter(chosen), clock)
        self._app_loop.before_close(self._emitter.settle)
        self._outbox = None if outbox is None else chosen_outbox(outbox, namespace=namespace, clock=clock)
        own_file = own_sqlite_file(self.url, self._outbox)
        self._transactions = TransactionWriter(self._app_loop, self._outbox, own_file)
        portal = Portal(self._app_loop)
        parts = AppParts(
            app_loop=self._app_loop,
            registry=self._registry,
            emitter=self._emitter,
            codec=checked,
            max_payload=self._max_payload,
            retry=checked_retry(retry),
            transactions=self._transactions,
            portal=portal,
        )
        self._jobs = Jobs(
            parts,
            queue_limit=None if queue_limit is None else positive_number("queue_limit", queue_limit),
            result_ttl=self._result_ttl,
            validate=flag("validate", validate),
        )
        self._events = Events(parts, self._jobs.outgoing_of)
        self.admin: Admin = Admin(
            self._app_loop,
            self._registry,
            edit_envelope=self._jobs.edited,
            end_record_ttl=self._result_ttl,
            codec=checked,
            outbox=self._outbox,
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
        return MappingProxyType(self._jobs.declarations.tasks)

    @property
    def declared_queues(self) -> Mapping[str, Queue]:
        """The queues that the app has declared with options, by name. `admin.queues()` lists those of the
        store."""
        return MappingProxyType(self._registry.declared_queues)

    @property
    def declared_topics(self) -> Mapping[str, Topic[Any]]:
        """The topics that the app has declared, by name. `admin.topics()` lists those of the store."""
        return MappingProxyType(dict(self._events.topics))

    async def enqueue(self, call: Call[R], *, transaction: object = None) -> Job[R]:
        """Store one job: `await app.enqueue(add.call(2, 3))`.

        When this returns, the job is stored, and a worker will run it.

        - `call`: a task with its arguments and options, made by `task.call(...)`
        - `transaction`: a connection of yours. The job exists if, and only if, the open transaction of this
          connection commits
        """
        return await self._jobs.enqueue(within(call, transaction))

    @overload
    async def enqueue_many(self, calls: Sequence[Call[R]], *, transaction: object = ...) -> list[Job[R]]: ...
    @overload
    async def enqueue_many(
        self, calls: Sequence[Call[Any]], *, transaction: object = ...
    ) -> list[Job[Any]]: ...

    async def enqueue_many(self, calls: Sequence[Call[Any]], *, transaction: object = None) -> list[Job[Any]]:
        """Store many jobs of any tasks, a few hundred with each write.

        The jobs are in the order of the calls. When the arguments of one call are refused, nothing is stored.

        - `calls`: what to enqueue, made by `task.call(...)`
        - `transaction`: a connection of yours, as in `enqueue`
        """
        calls = calls if transaction is None else [within(call, transaction) for call in calls]
        return await self._jobs.enqueue_many(calls)

    @overload
    async def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None = ..., return_exceptions: Literal[False] = ...
    ) -> list[R]: ...
    @overload
    async def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None = ..., *, return_exceptions: Literal[True]
    ) -> list[R | BaseException]: ...
    @overload
    async def results(
        self, jobs: Iterable[Job[R]], timeout: Duration | None, return_exceptions: Literal[True]
    ) -> list[R | BaseException]: ...

    async def results(
        self, jobs: Iterable[Job[Any]], timeout: Duration | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait for the results of many jobs, and return them in the order of the jobs.

        - `timeout`: seconds to wait for all of them together; None (the default): as long as it takes
        - `return_exceptions`: False (the default): the first error is raised, as `Job.result` raises it, and
          the other jobs go on. True: each error is in the list, in the place of its job's result
        """
        return await results_of(jobs, timeout, return_exceptions)

    def job(self, id: str, *, queue: str | None = None) -> Job[Any]:
        """A handle for a job id. Without `queue`, each question goes to every queue of the store."""
        return Job(checked_id(id), self._jobs.lookup, queue=queue)

    def worker(
        self,
        *,
        queues: QueueNames | None = None,
        topics: Sequence[str] | None = None,
        concurrency: int = 100,
        children: int | None = None,
        lease: Duration = 15,
        grace: Duration = 25,
        **unknown: Never,
    ) -> Worker:
        """A worker for this event loop: `async with app.worker():`, or `await app.worker().run()`.

        - `queues`: the queues that it serves. None: every queue that the tasks of the app name, and the queue
          `default`. An empty list: none. `{"mails": 20, "reports": None}` also says how many slots a queue
          may use; None: as declared
        - `topics`: the topics, or patterns of topics, whose subscriptions it serves. None: all subscriptions
          of the app. An empty list: none
        - `concurrency`: how many jobs and events run at a time
        - `children`: how many processes run tasks with `run_in="process"`. None: the number of CPUs
        - `lease`: the time in seconds after which other workers take over the work of a worker that died.
          Leases are renewed while jobs run, so it does not bound the length of a job
        - `grace`: how many seconds running work has at shutdown before it is cancelled and handed back
        """
        for name in unknown:
            raise unknown_option("worker()", name, _options_of(App.worker))
        self._jobs.resolve()
        self._events.resolve()
        subscriptions = chosen_subscriptions(self._registry, topics)
        names = chosen_queues(self._registry, queues, required=not subscriptions)
        options = WorkerOptions(
            queues=names,
            slots=chosen_slots(self._registry, names, queues),
            concurrency=positive_number("concurrency", concurrency),
            children=positive_number("children", children or os.cpu_count() or 1),
            lease=positive_seconds("lease", lease, least=SHORTEST_LEASE),
            grace=seconds("grace", grace),
            max_payload=self._max_payload,
            end_record_ttl=self._result_ttl,
            history=self._history,
        )
        return self._worker(options, subscriptions)

    @property
    def has_outboxes(self) -> bool:
        """Whether the app has something to relay: an outbox, a topic that feeds a task, or a queue with
        `on_dead`."""
        feeds = any(each.forwards for each in self._registry.subscriptions)
        calls = any(each.on_dead for each in self.declared_queues.values())
        return self._outbox is not None or feeds or calls

    def relay(self) -> Worker:
        """A worker that runs no jobs and handles no events: it relays outboxes, as every worker of the app
        does. `headrace relay` runs it."""
        self._jobs.resolve()
        options = WorkerOptions(
            queues=(),
            concurrency=1,
            children=1,
            lease=15.0,
            grace=0.0,
            max_payload=self._max_payload,
            end_record_ttl=self._result_ttl,
        )
        return self._worker(options, [])

    def _worker(self, options: WorkerOptions, subscriptions: Sequence[Subscription]) -> Worker:
        return Worker(
            options,
            app_loop=self._app_loop,
            registry=self._registry,
            emitter=self._emitter,
            subscriptions=subscriptions,
            outboxes=() if self._outbox is None else (self._outbox.for_other_loop(),),
            topics={name: topic.options.rules for name, topic in self._events.topics.items()},
        )

    def use(self, middleware: Middleware) -> Middleware:
        """Wrap every run of a job or an event: `@app.use` on `async def middleware(run, call_next)`.

        The middleware returns what `await call_next(run)` returns, and may change it. What it raises is the
        error of the run. The first one added is the outermost.
        """
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
        """Listen to signals: `@app.on(signals.JobDied)` on a function or coroutine function of one signal.

        A listener to a base class, such as `signals.Signal`, gets all signals of this class. An error in a
        listener is logged, and never affects a job.
        """
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
        await self._transactions.prepare()
        await self._app_loop.enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._app_loop.leave()


def _options_of(function: Callable[..., Any]) -> dict[str, None]:
    return dict.fromkeys(name for name in signature(function).parameters if name not in ("self", "unknown"))
