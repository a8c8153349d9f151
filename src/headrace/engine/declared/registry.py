"""Maps names to handlers: all the work that a worker can do."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Envelope, Stream
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.core.schedules.schedule import Schedule
from headrace.engine.running.injection.resources import Lifespan

from .limits import DeclaredLimits
from .queue import Queue

if TYPE_CHECKING:
    from headrace.engine.running.run import Run
    from headrace.engine.settling.death_calls import DeathTask
    from headrace.engine.settling.manual_acks import ManualAcks

    from .subscription import Subscription

P = ParamSpec("P")
T = TypeVar("T")

#: Stream objects in the lookup cache, which uses their identity. A full cache is cleared.
MOST_STREAMS = 1000


class CallNext(Protocol):
    """The rest of a run, as middleware gets it. Await it with the run to get the handler's value."""

    def __call__(self, run: Run, /) -> Awaitable[object]: ...


#: What is wrapped around every run: `async def middleware(run, call_next) -> object`.
Middleware = Callable[["Run", CallNext], Awaitable[object]]
Decode = Callable[[bytes], tuple[tuple[Any, ...], dict[str, Any]]]
DecodeBound = Callable[[str, Envelope], tuple[tuple[Any, ...], dict[str, Any]]]
EncodeArguments = Callable[[tuple[Any, ...], dict[str, Any]], bytes]
Fit = Callable[["Run", "ManualAcks"], tuple[Any, ...]]
#: The names of the limits that the jobs of a task have in a queue.
LimitsIn = Callable[[str], Sequence[str]]


class BatchRule(msgspec.Struct, frozen=True):
    """How many jobs of a batch task run together at most, and how long one waits for others, in seconds.
    `ordered`: they have keys. A list has one key, and of a key there is one job at a time."""

    size: int
    wait: float = 0.0
    ordered: bool = False


class Handler(msgspec.Struct, frozen=True, eq=False):
    """A function under a name, with everything needed to run it decided beforehand."""

    name: str
    queue: str
    function: Callable[..., Any]
    run_in: Literal["loop", "thread", "process"]
    decode: Decode
    encode: Callable[[object, str], bytes]  # a result, and the id of its job
    decode_result: Callable[[bytes, str], Any]
    retry: RetryPolicy | RetryFunction
    timeout: float | None
    result_ttl: float  # 0: no result is kept
    nothing: bytes | None = None  # the payload of a call without arguments, if the function allows that
    # In place of `decode` when the codec of the app binds payloads: takes the id of the message, too.
    decode_bound: DecodeBound | None = None
    # A task has these: its arguments without the codec of the app, for a child process.
    encode_bare: EncodeArguments | None = None
    decode_bare: Decode | None = None
    # A subscription has this: it makes the arguments from the run and from the part that settles deliveries.
    fit: Fit | None = None
    own_retry: bool = True  # the task names its policy; else that of its queue goes first
    batch: bool = False  # it takes a list of events or jobs, and can report the outcome of each
    batch_rule: BatchRule | None = None  # of a batch task; the batches of events are those of subscriptions
    job_logs: int = 0  # how many of its log lines are kept with the job
    limits_in: LimitsIn | None = None
    limited: bool = False  # its jobs must have limits, or it was paused; set by the registry
    bare: bool = False  # a coroutine function with nothing around it
    plain: bool = False  # the same, and not limited

    def __post_init__(self) -> None:
        if self.run_in == "loop" and not _is_async_def(self.function):
            msgspec.structs.force_setattr(self, "function", _awaiting(self.function))
        bare = self.fit is None and self.decode_bound is None
        bare = self.run_in == "loop" and bare and not self.batch and not self.timeout
        msgspec.structs.force_setattr(self, "bare", bare)
        msgspec.structs.force_setattr(self, "plain", bare and not self.limited)


class Registry:
    """Handlers by name, the middleware around them, and the lifespan whose value they use."""

    def __init__(
        self, lifespan: Lifespan | None = None, job_logs: int = 0, codec: BindingCodec | None = None
    ) -> None:
        self.lifespan = lifespan
        self.job_logs = job_logs
        self.codec = codec  # if it binds payloads: schedules need it for the jobs that they make
        self.handlers: dict[str, Handler] = {}
        self._middleware: list[Middleware] = []
        self.limits: DeclaredLimits = DeclaredLimits()
        self.death_tasks: dict[str, DeathTask] = {}  # by queue; known when a worker is made
        self.declared_queues: dict[str, Queue] = {}  # those that the code declares
        self.schedules: dict[str, Schedule] = {}  # those that the code declares
        self.subscriptions: list[Subscription] = []
        self._served: dict[Stream, Subscription | None] = {}
        self._serving: dict[int, tuple[Stream, Subscription | None]] = {}
        self.find: Callable[[str], Handler | None] = self.handlers.get
        self.has_children: bool = False  # whether any of its tasks runs in a child process
        self.has_constraints: bool = (
            False  # whether any of its tasks or queues has limits, tenants or an order
        )
        self.ordered_queues: set[str] = set()  # of tasks with ordered_by=
        self.running: weakref.WeakSet[object] = weakref.WeakSet()  # workers that use this registry

    def refuse_while_running(self, what: str) -> None:
        """Raise while a worker runs: it serves only what was declared when it started."""
        if self.running:
            raise ConfigurationError(
                f"{what} is declared while a worker of this app runs, which would not serve it: declare it "
                "before the worker starts, such as by importing its module where the app is made"
            )

    def add(self, handler: Handler) -> None:
        known = self.handlers.get(handler.name)
        if known is not None and not _same_function(known.function, handler.function):
            raise ConfigurationError(
                f"two tasks are called {handler.name!r}: {where(known.function)} and "
                f"{where(handler.function)}; give one of them another name="
            )
        if known is None:
            self.refuse_while_running(f"task {handler.name!r} ({where(handler.function)})")
        self.handlers[handler.name] = self._logging(handler)
        if known is not None and known.limited:
            self.limit(handler.name)
        if handler.run_in == "process":
            self.has_children = True
            _declare(self, handler)

    def limit(self, task: str) -> None:
        """From now on, workers look whether the jobs of this task have all their limits."""
        handler = self.handlers.get(task)
        if handler is not None and not handler.limited:
            self.handlers[task] = msgspec.structs.replace(handler, limited=True)

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription. One group of one topic has one handler."""
        for known in self.subscriptions:
            if known.overlaps(subscription):
                raise ConfigurationError(
                    f"group {subscription.group!r} of {subscription.topic} has a handler already "
                    f"({known.topic}: {where(known.handler.function)}): give the other one another group"
                )
        self.refuse_while_running(f"the subscription {subscription} ({where(subscription.handler.function)})")
        subscription.handler = self._logging(subscription.handler)
        self.subscriptions.append(subscription)
        self._served.clear()
        self._serving.clear()

    def _logging(self, handler: Handler) -> Handler:
        return msgspec.structs.replace(handler, job_logs=self.job_logs) if self.job_logs else handler

    def serving(self, claim: Claim) -> Subscription | None:
        """The subscription of a claim. It is called several times for every event. The claims of a stream
        share one stream object, and a lookup by identity is faster than a hash."""
        stream = claim.stream
        found = self._serving.get(id(stream))
        if found is None or found[0] is not stream:
            if len(self._serving) >= MOST_STREAMS:
                self._serving.clear()
            found = self._serving[id(stream)] = stream, self.subscribed(claim.whole)
        return found[1]

    def subscribed(self, stream: Stream) -> Subscription | None:
        """The subscription that handles what is claimed from a group's stream."""
        if stream not in self._served:
            found = (
                each
                for each in self.subscriptions
                if each.group == stream.group and each.matches(stream.topic)
            )
            self._served[stream] = next(found, None)
        return self._served[stream]

    def use(self, middleware: Middleware) -> None:
        """Wrap every run; the first added is the outermost."""
        self._middleware.append(middleware)

    @property
    def has_middleware(self) -> bool:
        return bool(self._middleware)

    @contextmanager
    def wrapped_by(self, middleware: Middleware) -> Iterator[None]:
        """Wrap every run for a while, outside all other middleware. For tests."""
        self._middleware.insert(0, middleware)
        try:
            yield
        finally:
            self._middleware.remove(middleware)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self.handlers.values())

    def __contains__(self, name: object) -> bool:
        return name in self.handlers

    @property
    def batches(self) -> dict[str, BatchRule]:
        """The batch tasks by name."""
        return {each.name: each.batch_rule for each in self if each.batch_rule is not None}

    def queues(self) -> set[str]:
        return {handler.queue for handler in self}

    def fold(self, innermost: CallNext) -> CallNext | None:
        """The middleware around `innermost` as one function; None when there is none."""
        if not self._middleware:
            return None
        call = innermost
        for middleware in reversed(self._middleware):
            call = _wrapped(middleware, call)
        return call


class Declaration(msgspec.Struct, frozen=True, array_like=True):
    """Identifies a task of an app in a worker and in its child processes: the place of its function, and
    `turn`: the index of this app among those that declare that function under that name, since its module was
    loaded last."""

    module: str
    function: str
    task: str
    turn: int


def declaration_of(registry: Registry, handler: Handler) -> Declaration:
    module, function, task = place = _place(handler)
    declared = _declared[place]
    loaded = next(spec for each, spec in declared if each() is registry)
    turns = [each() is registry for each, spec in declared if spec is loaded]
    return Declaration(module, function, task, turns.index(True))


def find_declared(declaration: Declaration, module: str) -> tuple[Registry, Handler] | None:
    """The app and its task in this process, which has loaded the modules in the same order."""
    declared = _declared.get((module, declaration.function, declaration.task), [])
    registry = declared[declaration.turn][0]() if declaration.turn < len(declared) else None
    handler = registry.find(declaration.task) if registry is not None else None
    return None if registry is None or handler is None else (registry, handler)


def forget_what_failed_to_load() -> None:
    """Forget the tasks of modules whose import failed: the next import declares these tasks again."""
    for place in [place for place in _declared if place[0] not in sys.modules]:
        del _declared[place]


#: The apps that declare a function for child processes, in the order of their declarations. With each one is
#: the spec of the function's module: a module that is loaded again has another one. A child loads it once.
_declared: dict[tuple[str, str, str], list[tuple[weakref.ref[Registry], object]]] = {}


def _declare(registry: Registry, handler: Handler) -> None:
    declared = _declared.setdefault(_place(handler), [])
    if not any(each() is registry for each, _ in declared):
        spec = getattr(sys.modules.get(handler.function.__module__), "__spec__", None)
        declared.append((weakref.ref(registry), spec))


def _place(handler: Handler) -> tuple[str, str, str]:
    function = handler.function
    return function.__module__, getattr(function, "__qualname__", repr(function)), handler.name


def _wrapped(middleware: Middleware, call_next: CallNext) -> CallNext:
    def call(run: Run) -> Coroutine[Any, Any, object]:
        return middleware(run, call_next)  # type: ignore[return-value]

    return call


def _is_async_def(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_COROUTINE)


def _awaiting(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a function that is only marked as a coroutine function. It may return any awaitable, and its own
    StopIteration must not end a coroutine."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await function(*args, **kwargs)

    return call


def _same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    # A module that is imported twice (as __main__ and by its name) or reloaded declares its tasks again.
    return where(one) == where(other)


def where(function: Callable[..., Any]) -> str:
    """The name of a function, and its place in the code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
    return f"{getattr(function, '__qualname__', function)} ({place})"
