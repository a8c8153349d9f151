"""The jobs of an app: enqueues calls of its tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

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
from headrace.core.messages.outgoing import Outgoing
from headrace.core.messages.sending import SendingWrapper
from headrace.core.records.answers import Answer, is_refused
from headrace.core.signals import JobEnqueued
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.producing.producer import Producer
from headrace.engine.transactions.writer import run_here
from headrace.jobs.declaring.declared import Declared
from headrace.jobs.declaring.task_declarations import TaskDeclarations
from headrace.jobs.handles.job import Job
from headrace.jobs.handles.lookup import JobLookup
from headrace.jobs.payload.versions import Upcast

from .encoder import CheckedCall, JobEncoder
from .options import BatchTaskSettings
from .remote import RemoteTask
from .repetition import duplicate_job
from .sending import EnqueueHooks, carrying, sending_of, transaction_of
from .task import AroundDirectCall, Call, Task

R = TypeVar("R")

#: Messages that are encoded at a time while the store writes those before.
PAGE = 100


class Jobs:
    """Makes jobs of calls. Made by the app."""

    def __init__(
        self, parts: AppParts, *, queue_limit: int | None, result_ttl: float, validate: bool
    ) -> None:
        self._app_loop = parts.app_loop
        self._emitter = parts.emitter
        self._transactions = parts.transactions
        self._portal = parts.portal
        self._queue_limit = queue_limit
        self.around: EnqueueHooks | None = None
        self.around_direct_calls: AroundDirectCall | None = None
        self.declarations: TaskDeclarations = TaskDeclarations(
            parts, result_ttl=result_ttl, validate=validate
        )
        self._limits = self.declarations.queues.limits
        self._encoder = JobEncoder(
            clock=parts.app_loop.clock, max_payload=parts.max_payload, end_record_ttl=result_ttl
        )
        self.lookup: JobLookup = JobLookup(
            app_loop=parts.app_loop,
            declared=self.declarations.by_task,
            codec=parts.codec,
            end_record_ttl=result_ttl,
            portal=parts.portal,
        )

    def declare(
        self, function: Callable[..., Any], settings: BatchTaskSettings, local_names: Mapping[str, Any]
    ) -> Task[Any, Any]:
        return self.declarations.declare(function, settings, local_names, self)

    def remote(self, name: str, queue: str, version: int) -> RemoteTask:
        return self.declarations.remote(name, queue, version, self)

    def add_upcast(self, task: Task[Any, Any], from_version: int, function: Upcast) -> Upcast:
        return self.declarations.add_upcast(task, from_version, function)

    def resolve(self) -> None:
        self.declarations.resolve(self.outgoing_of)

    async def enqueue(self, call: Call[R], /) -> Job[R]:
        """Store one job; see `App.enqueue`."""
        if self.around is not None:
            return await self._enqueue_wrapped(self.around, call)
        declared = self.declarations.of(call, self)
        if call.options.transaction is not UNSET:
            return (await self._write([call], call.options.transaction))[0]
        stream, message = self._encoder.encode(call, declared)
        ttl = call.options.result_ttl
        keeps = (declared.result_ttl if ttl is UNSET else ttl) > 0
        opened = self._app_loop.here
        if opened is not None:
            return await self._store(stream, message, keeps, producer=opened.producer)
        return await self._store_on_app_loop(stream, message, keeps)

    def enqueue_sync(self, call: Call[R], /) -> Job[R]:
        """`enqueue` for plain code. The statements of a transaction run on the calling thread, to which the
        user's connection belongs."""
        if transaction_of([call]) is UNSET:
            return self._portal.run(self.enqueue, call)
        return run_here(self.enqueue(call))

    async def enqueue_many(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]:
        """Store many jobs of any tasks; see `App.enqueue_many`."""
        calls, around = list(calls), self.around
        transaction = transaction_of(calls)
        if transaction is not UNSET:
            return await self._write(calls, transaction)
        if around is None or not calls:
            return await self._enqueue_list(calls)
        jobs = await self._enqueue_list_traced(around.sending, calls)
        if around.after is not None:
            await around.after(jobs)
        return jobs

    async def _write(self, calls: list[Call[Any]], transaction: object) -> list[Job[Any]]:
        """Write jobs in a transaction of the user. A relay enqueues them once it has committed."""
        outgoing = [self.outgoing_of(call) for call in calls]
        answers = await self._transactions.write(transaction, outgoing)
        if answers is not None:
            return self._written(calls, outgoing, answers)
        return [
            Job(
                each.message.id,
                self.lookup,
                each.message.task,
                each.stream.name,
                _keeps=self._keeps_result(call),
                _in_outbox=True,
            )
            for call, each in zip(calls, outgoing, strict=True)
        ]

    def _written(
        self, calls: list[Call[Any]], outgoing: list[Outgoing], answers: list[Answer]
    ) -> list[Job[Any]]:
        """The jobs that were written into the store itself. The transaction of the user is still open."""
        jobs, full, duplicate = [], None, None
        for call, each, answer in zip(calls, outgoing, answers, strict=True):
            if answer.verdict == "full":
                full = full or (each.stream, answer.why)
                continue
            job = self._job(each.stream, each.message.task, answer, self._keeps_result(call))
            if is_refused(each.message, answer):
                duplicate = duplicate or job
            else:
                jobs.append(job)
        if full is not None:
            stream, why = full
            raise self._full(stream, jobs, why)
        if duplicate is not None:
            raise duplicate_job(duplicate, jobs)
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
        checked = [self._encoder.check(call, self.declarations.of(call, self)) for call in calls]
        parts: dict[Stream, list[int]] = {}
        for place, each in enumerate(checked):
            parts.setdefault(each.stream, []).append(place)
        return await self._app_loop.carry_out(self._enqueue_many, calls, checked, parts)

    async def _enqueue_wrapped(self, around: EnqueueHooks, call: Call[R]) -> Job[R]:
        transaction = transaction_of([call])
        if transaction is not UNSET:
            return (await self._write([call], transaction))[0]
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
        declared = self.declarations.by_task.get(envelope.task)
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
            limit = self._limits.get(stream.name, self._queue_limit)
            [answer] = await producer.append(stream, [message], limit, since)
        except NotConfirmed as error:
            taken = [self._job(stream, message.task, answer, keeps) for answer in error.answers]
            self._announce(taken)
            raise NotDurable(str(error), accepted=taken) from error
        job = self._job(stream, message.task, answer, keeps)
        if answer.verdict != "accepted":
            if answer.verdict == "full":
                raise self._full(stream, [], answer.why)
            if is_refused(message, answer):
                raise duplicate_job(job)
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
        duplicate: Job[Any] | None = None
        for (stream, places), answers in zip(parts.items(), appended, strict=True):
            for place, answer in zip(places, _taken(answers), strict=False):
                if answer.verdict != "full":
                    call, message = calls[place], checked[place].message
                    keeps = self._keeps_result(call, checked[place].declared)
                    job = self._job(stream, call.task.options.name, answer, keeps)
                    if message is not None and is_refused(message, answer):
                        duplicate = duplicate or job
                    else:
                        jobs[place] = job
        accepted = [job for job in jobs if job is not None]
        self._announce(accepted)
        # An error comes before a full queue: of what it concerns it may not be known whether it was stored.
        outcomes = sorted(zip(parts, appended, strict=True), key=lambda outcome: isinstance(outcome[1], list))
        doubt = any(isinstance(each, BackendUnavailable) and each.uncertain for each in appended)
        with after_a_part(doubt or accepted):
            for stream, answers in outcomes:
                self._raise_if_refused(stream, answers, accepted)
        if duplicate is not None:
            raise duplicate_job(duplicate, accepted)
        return accepted

    def encode(self, call: Call[Any]) -> tuple[Stream, Message]:
        """The message of a call, and the stream of its queue."""
        return self._encoder.encode(call, self.declarations.of(call, self))

    def outgoing_of(self, call: Call[Any]) -> Outgoing:
        """The message of a call for an outbox."""
        wrapper = None if self.around is None else self.around.sending
        if wrapper is None:
            stream, message = self.encode(call)
            return Outgoing(stream, message, self._limits.get(stream.name, self._queue_limit))
        sending = sending_of([call])
        with wrapper(sending):
            stream, message = self.encode(carrying(call, sending.carried))
            sending.ids = (message.id,)
        return Outgoing(stream, message, self._limits.get(stream.name, self._queue_limit))

    def template_of(self, call: Call[Any]) -> tuple[Stream, Message, Envelope]:
        """What a schedule sends for a call. Its arguments are not bound to this one message."""
        declared = self.declarations.of(call, self)
        if call.options.transaction is not UNSET:
            raise ConfigurationError("the call of a schedule runs later, and takes no transaction=")
        stream, message = self._encoder.encode(call, declared)
        envelope = decode_envelope(message.body)
        if declared.binding is not None:
            payload = declared.verified(declared.binding, message.id, envelope)
            envelope = msgspec.structs.replace(envelope, payload=payload)
        return stream, message, envelope

    def _append(self, stream: Stream, calls: list[CheckedCall]) -> Coroutine[Any, Any, list[Answer]]:
        producer = self._app_loop.producer
        limit = self._limits.get(stream.name, self._queue_limit)
        return producer.append_pages(stream, self._pages(calls), len(calls), limit)

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
        limit = self._limits.get(stream.name, self._queue_limit)
        noun = "job" if limit == 1 else "jobs"
        return QueueFull(
            f"queue {stream.name!r} holds its limit of {limit} {noun}; try again when workers have "
            "caught up, or raise queue_limit",
            accepted=accepted,
        )

    def _announce(self, jobs: Sequence[Job[Any]]) -> None:
        if JobEnqueued in self._emitter.wanted:
            for job in jobs:
                signal = JobEnqueued(job.id, job.task or "", job.queue or "", duplicate=job.duplicate)
                self._app_loop.tell(self._emitter.emit, signal)

    def _job(self, stream: Stream, task: str, answer: Answer, keeps: bool | None) -> Job[Any]:
        if answer.verdict == "accepted":
            return Job(answer.id, self.lookup, task, stream.name, _keeps=keeps)
        # The job that is there already may have other options.
        known = None if answer.verdict == "duplicate" else keeps
        return Job(answer.id, self.lookup, task, stream.name, answer.known, known)

    def _keeps_result(self, call: Call[Any], declared: Declared | None = None) -> bool:
        ttl = call.options.result_ttl
        return ((declared or self.declarations.of(call, self)).result_ttl if ttl is UNSET else ttl) > 0


def _taken(answers: list[Answer] | BaseException) -> list[Answer]:
    """The answers of the store to the messages that it has taken."""
    if isinstance(answers, NotConfirmed):
        return answers.answers
    return [] if isinstance(answers, BaseException) else answers
