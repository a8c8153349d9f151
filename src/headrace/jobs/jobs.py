"""The jobs of an app: declares tasks and enqueues calls."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from headrace.core.errors import (
    BackendUnavailable,
    ConfigurationError,
    NotConfirmed,
    NotDurable,
    QueueFull,
    UnknownTask,
    after_a_part,
)
from headrace.core.messages.message import Envelope, Message, Stream, decode_envelope
from headrace.core.messages.sending import SendingWrapper
from headrace.core.records.answers import Answer
from headrace.core.signals import JobEnqueued
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.producing.producer import Producer
from headrace.engine.registry import Handler
from headrace.engine.running.injection.dependencies import needs_of
from headrace.engine.running.injection.injection import provided

from .arguments import Arguments
from .declared import Declared, default_name
from .encoder import CheckedCall, JobEncoder
from .job import Job
from .lookup import JobLookup
from .options import TaskOptions, TaskSettings, task_options
from .sending import EnqueueHooks, carrying, not_a_call, sending_of
from .task import AsyncTask, Call, SyncTask, Task

R = TypeVar("R")

#: Messages that are encoded at a time while the store writes those before.
PAGE = 100


class Jobs:
    """Makes tasks of functions, and jobs of calls. Made by the app."""

    def __init__(self, parts: AppParts, *, queue_limit: int | None, result_ttl: float) -> None:
        self._app_loop = parts.app_loop
        self._registry = parts.registry
        self._emitter = parts.emitter
        self._codec = parts.codec
        self._retry = parts.retry
        self._queue_limit = queue_limit
        self._result_ttl = result_ttl
        self.around: EnqueueHooks | None = None
        self.tasks: dict[str, Task[Any, Any]] = {}
        self._declared: dict[str, Declared] = {}
        self._encoder = JobEncoder(
            clock=parts.app_loop.clock, max_payload=parts.max_payload, end_record_ttl=result_ttl
        )
        self.lookup: JobLookup = JobLookup(
            app_loop=parts.app_loop, declared=self._declared, codec=parts.codec, end_record_ttl=result_ttl
        )

    def declare(
        self, function: Callable[..., Any], settings: TaskSettings, local_names: Mapping[str, Any]
    ) -> Task[Any, Any]:
        """Make a task of a function and register its handler."""
        _check_function(function)
        if "name" not in settings:
            settings = {**settings, "name": default_name(function)}
        options = task_options(settings)
        arguments = Arguments(function, local_names)
        is_async = inspect.iscoroutinefunction(function)
        declared = Declared(options, arguments, self._kept_for(function, options), self._codec)
        needs = needs_of(function)
        if needs:
            function = provided(function, needs)
        self._registry.add(
            Handler(
                name=options.name,
                queue=options.queue,
                function=function,
                run_in=_place(function, options, is_async=is_async),
                decode=declared.decode,
                encode=declared.encode_result,
                decode_result=declared.decode_result,
                retry=options.retry or self._retry,
                timeout=options.timeout or None,
                result_ttl=declared.result_ttl,
                nothing=arguments.nothing if self._codec is None else None,
                decode_bound=None if declared.binding is None else declared.decode_bound,
            )
        )
        self._declared[options.name] = declared
        kind: type[Task[Any, Any]] = AsyncTask if is_async else SyncTask
        task = self.tasks[options.name] = kind(
            function, options=options, enqueuer=self, signature=arguments.signature if needs else None
        )
        return task

    def resolve(self) -> None:
        """Check the annotations of every task. A worker does this before its first job."""
        for declared in self._declared.values():
            declared.arguments.resolve()

    async def enqueue(self, call: Call[R], /) -> Job[R]:
        """Store one job; see `App.enqueue`."""
        if self.around is not None:
            return await self._enqueue_wrapped(self.around, call)
        declared = self._declared_of(call)
        stream, message = self._encoder.encode(call, declared)
        ttl = call.options.result_ttl
        keeps = (declared.result_ttl if ttl is UNSET else ttl) > 0
        opened = self._app_loop.here
        if opened is not None:
            return await self._store(stream, message, keeps, producer=opened.producer)
        return await self._store_on_app_loop(stream, message, keeps)

    async def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        """Store many jobs of any tasks; see `App.enqueue_many`."""
        calls, around = list(calls), self.around
        if around is None or not calls:
            return await self._enqueue_list(calls)
        jobs = await self._enqueue_list_traced(around.sending, calls)
        if around.after is not None:
            await around.after(jobs)
        return jobs

    async def _enqueue_list_traced(
        self, wrapper: SendingWrapper | None, calls: list[Call[Any]]
    ) -> list[Job[Any]]:
        if wrapper is None:
            return await self._enqueue_list(calls)
        sending = sending_of(calls)
        with wrapper(sending):
            jobs = await self._enqueue_list([carrying(call, sending.carried) for call in calls])
            sending.ids = [job.id for job in jobs]
            return jobs

    async def _enqueue_list(self, calls: list[Call[Any]]) -> list[Job[Any]]:
        checked = [self._encoder.check(call, self._declared_of(call)) for call in calls]
        parts: dict[Stream, list[int]] = {}
        for place, each in enumerate(checked):
            parts.setdefault(each.stream, []).append(place)
        return await self._app_loop.carry_out(self._enqueue_many, calls, checked, parts)

    async def _enqueue_wrapped(self, around: EnqueueHooks, call: Call[R]) -> Job[R]:
        job = await self._enqueue_traced(around.sending, call)
        if around.after is not None:
            await around.after([job])
        return job

    async def _enqueue_traced(self, wrapper: SendingWrapper | None, call: Call[R]) -> Job[R]:
        if wrapper is None:
            stream, message = self.encode(call)
            return await self._store_on_app_loop(stream, message, self._keeps_result(call))
        sending = sending_of([call])
        with wrapper(sending):
            job = await self._enqueue_traced(None, carrying(call, sending.carried))
            sending.ids = (job.id,)
            return job

    def edited(self, id: str, envelope: Envelope, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Envelope:
        """The envelope of a stored job with other arguments. They are decoded once, as a worker does, so that
        wrong arguments are refused."""
        declared = self._declared.get(envelope.task)
        if declared is None:
            raise UnknownTask(f"no task called {envelope.task!r} is declared in this app")
        if declared.binding is not None:
            # The headers are signed anew, so they must be genuine.
            declared.verified(declared.binding, id, envelope)
        payload = self._encoder.payload_for(declared, envelope, tuple(args), dict(kwargs))
        edited = msgspec.structs.replace(envelope, payload=payload)
        declared.decode_bound(id, edited)
        return edited

    async def post(self, stream: Stream, message: Message) -> Job[Any]:
        """Store a job whose message was made before, maybe by other code. Runs on the app's loop."""
        return await self._store(stream, message, None)

    async def _store_on_app_loop(self, stream: Stream, message: Message, keeps: bool | None) -> Job[Any]:
        """Store a message on the app's loop. Opening the store counts toward the time that a caller may
        wait."""
        since = time.monotonic()
        await self._app_loop.opened()
        return await self._app_loop.call(self._store, stream, message, keeps, since)

    async def _store(
        self,
        stream: Stream,
        message: Message,
        keeps: bool | None,
        since: float | None = None,
        *,
        producer: Producer | None = None,
    ) -> Job[Any]:
        """`keeps` says whether the result of the job is kept; None: this is not known."""
        producer = producer or self._app_loop.producer
        try:
            [answer] = await producer.append(stream, [message], self._queue_limit, since)
        except NotConfirmed as error:
            taken = [self._job(stream, message.task, answer, keeps) for answer in error.answers]
            self._announce(taken)
            raise NotDurable(str(error), accepted=taken) from error
        if answer.verdict == "full":
            raise self._full(stream, [], answer.why)
        job = self._job(stream, message.task, answer, keeps)
        self._announce([job])
        return job

    async def _enqueue_many(
        self, calls: list[Call[Any]], checked: list[CheckedCall], parts: dict[Stream, list[int]]
    ) -> list[Job[Any]]:
        appended = await asyncio.gather(
            *(self._append(stream, [checked[place] for place in places]) for stream, places in parts.items()),
            return_exceptions=True,
        )
        jobs: list[Job[Any] | None] = [None] * len(calls)
        for (stream, places), answers in zip(parts.items(), appended, strict=True):
            for place, answer in zip(places, _taken(answers), strict=False):
                if answer.verdict != "full":
                    call = calls[place]
                    jobs[place] = self._job(stream, call.task.options.name, answer, self._keeps_result(call))
        accepted = [job for job in jobs if job is not None]
        self._announce(accepted)
        # An error comes before a full queue: of what it concerns it may not be known whether it was stored.
        outcomes = sorted(zip(parts, appended, strict=True), key=lambda outcome: isinstance(outcome[1], list))
        doubt = any(isinstance(each, BackendUnavailable) and each.uncertain for each in appended)
        with after_a_part(doubt or accepted):
            for stream, answers in outcomes:
                self._raise_if_refused(stream, answers, accepted)
        return accepted

    def _kept_for(self, function: Callable[..., Any], options: TaskOptions) -> float:
        if options.result_ttl is not None:
            return options.result_ttl
        returns = function.__annotations__.get("return", "")
        return 0.0 if returns is None or returns == "None" else self._result_ttl

    def encode(self, call: Call[Any]) -> tuple[Stream, Message]:
        """The message of a call, and the stream of its queue."""
        return self._encoder.encode(call, self._declared_of(call))

    def template_of(self, call: Call[Any]) -> tuple[Stream, Message, Envelope]:
        """What a schedule sends for a call. Its arguments are not bound to this one message."""
        declared = self._declared_of(call)
        stream, message = self._encoder.encode(call, declared)
        envelope = decode_envelope(message.body)
        if declared.binding is not None:
            payload = declared.verified(declared.binding, message.id, envelope)
            envelope = msgspec.structs.replace(envelope, payload=payload)
        return stream, message, envelope

    def _declared_of(self, call: Call[Any]) -> Declared:
        if not isinstance(call, Call):
            raise not_a_call(call)
        declared = self._declared.get(call.task.options.name)
        if declared is None:
            raise UnknownTask(f"{call.task.name!r} is not a task of this app")
        return declared

    def _append(self, stream: Stream, calls: list[CheckedCall]) -> Coroutine[Any, Any, list[Answer]]:
        producer = self._app_loop.producer
        return producer.append_pages(stream, self._pages(calls), len(calls), self._queue_limit)

    def _pages(self, calls: list[CheckedCall]) -> Iterator[list[Message]]:
        finish = self._encoder.finish
        for start in range(0, len(calls), PAGE):
            yield [finish(call) for call in calls[start : start + PAGE]]

    def _raise_if_refused(
        self, stream: Stream, answers: list[Answer] | BaseException, accepted: list[Job[Any]]
    ) -> None:
        if isinstance(answers, NotConfirmed):
            raise NotDurable(str(answers), accepted=accepted) from answers
        if isinstance(answers, BaseException):
            raise answers
        for answer in answers:
            if answer.verdict == "full":
                raise self._full(stream, accepted, answer.why)

    def _full(self, stream: Stream, accepted: list[Job[Any]], why: str) -> QueueFull:
        if why:
            return QueueFull(
                f"the store has no room for more jobs of queue {stream.name!r} ({why}); try again when "
                "workers have caught up, or give the store more memory",
                accepted=accepted,
            )
        return QueueFull(
            f"queue {stream.name!r} holds its limit of {self._queue_limit} jobs; try again when workers have "
            "caught up, or raise queue_limit",
            accepted=accepted,
        )

    def _announce(self, jobs: Sequence[Job[Any]]) -> None:
        if JobEnqueued in self._emitter.wanted:
            for job in jobs:
                signal = JobEnqueued(job.id, job.task or "", job.queue or "", duplicate=job.duplicate)
                self._app_loop.tell(self._emitter.emit, signal)

    def _job(self, stream: Stream, task: str, answer: Answer, keeps: bool | None) -> Job[Any]:
        duplicate = answer.verdict == "duplicate"
        # The job that is there already may have other options.
        known = None if duplicate else keeps
        return Job(answer.id, self.lookup, task, stream.name, duplicate, known)

    def _keeps_result(self, call: Call[Any]) -> bool:
        ttl = call.options.result_ttl
        return (self._declared[call.task.options.name].result_ttl if ttl is UNSET else ttl) > 0


def _taken(answers: list[Answer] | BaseException) -> list[Answer]:
    """The answers of the store to the messages that it has taken."""
    if isinstance(answers, NotConfirmed):
        return answers.answers
    return [] if isinstance(answers, BaseException) else answers


def _place(
    function: Callable[..., Any], options: TaskOptions, *, is_async: bool
) -> Literal["loop", "thread", "process"]:
    if options.run_in is None:
        return "loop" if is_async else "thread"
    if options.run_in == "thread" and is_async:
        raise ConfigurationError(f"{options.name} is an async function, which runs on the event loop")
    if options.run_in == "process" and "<locals>" in function.__qualname__:
        raise ConfigurationError(
            f"{options.name} is a local function, which another process cannot find: declare it in a module"
        )
    return options.run_in


def _check_function(function: object) -> None:
    written = hasattr(function, "__qualname__") and hasattr(function, "__annotations__")
    if isinstance(function, Task | type) or not callable(function) or not written:
        raise ConfigurationError(
            f"a task is made from a function (`def` or `async def`), not from {function!r}"
        )
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError(f"{function!r} is a generator, which cannot be a task")
