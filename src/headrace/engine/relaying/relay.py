"""Appends what waits in an outbox to the streams that it is for, and removes it from the outbox.

Several relays may work on one outbox. A batch is the same for all of them, with one producer's name and one
number. So the target stores it once, whichever relays append it, and however often (`core/outbox/outbox.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.messages.outgoing import Outgoing, decode_outgoing
from headrace.core.outbox.outbox import OutgoingBatch, Refusal
from headrace.core.records.answers import Answer, is_refused
from headrace.core.records.record import JobStatus, Record, dead_letter_of, opened_letter
from headrace.core.runtime.clock import SECOND, SystemClock
from headrace.core.signals import EventPublished, JobDied, JobEnqueued
from headrace.core.topics.topic import TopicRules
from headrace.engine.emitter import Emitter
from headrace.engine.service import Service, first_of
from headrace.engine.settling.death_calls import DeathCalls
from headrace.engine.streams import StreamRouter

from .outbox_source import OutboxSource

#: Messages in one batch.
BATCH: Final = 500

#: Microseconds after which another relay takes a batch over.
HOLD: Final = 10 * SECOND

#: Seconds until the next try when a queue is full.
FULL_PAUSE: Final = 1.0

#: Where a content that cannot be read becomes a dead letter, if its outbox belongs to no stream.
UNREADABLE: Final = Stream("queue", "default")


class Relay(Service):
    """Relays one outbox. `topics` are the rules of the topics that the app declares. `limited`: the limits of
    queues hold."""

    def __init__(
        self,
        source: OutboxSource,
        backend: StreamRouter,
        *,
        name: str,
        topics: Mapping[str, TopicRules],
        emitter: Emitter,
        poked: asyncio.Event | None = None,
        deaths: DeathCalls | None = None,
        limited: bool = True,
    ) -> None:
        self.source = source
        self._limited = limited
        self.relayed = 0
        self._backend = backend
        self._name = name
        self._topics = topics
        self._deaths = deaths
        self._declared: set[str] = set()
        super().__init__("relay", self.relay_some, emitter=emitter, poked=poked)

    async def stop(self) -> None:
        """End after one more step: what this worker wrote last need not wait for another worker."""
        await super().stop()
        with contextlib.suppress(BackendUnavailable):
            await self.relay_some()
        await self.source.close()

    async def _sleep(self, pause: float) -> None:
        if self.failures:
            await super()._sleep(pause)  # while the target is away, more messages are no reason to try sooner
        else:
            await first_of(super()._sleep(pause), self.source.added())

    async def relay_some(self) -> float | None:
        """Hand on the next batch of each outbox. Returns the seconds until the next look."""
        batches = await self.source.take(relay=self._name, limit=BATCH, hold_us=HOLD)
        if not batches:
            return self.source.look_every
        # Outboxes do not depend on each other: one whose target is away does not hold the others up.
        outcomes = await asyncio.gather(*map(self._hand_over, batches), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return FULL_PAUSE if all(kept for kept in outcomes) else None

    async def _hand_over(self, batch: OutgoingBatch) -> bool:
        """Append the messages of a batch to their streams. Returns whether some must stay in the outbox."""
        sending = _Sending(batch, limited=self._limited)
        await self._bury_unreadable(batch, sending)
        for target in sending.targets:
            answers = await self._append(batch, target)
            await self._conclude(target, answers, sending)
        await self.source.hand_on(batch, kept=sending.kept)
        self.relayed += len(batch.entries) - len(sending.kept)
        return bool(sending.kept)

    async def _append(self, batch: OutgoingBatch, target: _Target) -> list[Answer]:
        stream = target.stream
        if stream.kind == "topic":
            await self._declare(stream)
        # Batches of one producer for one stream have one limit.
        producer = batch.producer if target.limit is None else f"{batch.producer}:{target.limit}"
        try:
            messages = Batch(stream, producer, batch.number, target.messages, target.limit)
            return await self._backend.append(messages)
        except (RequestRefused, ValueError):
            return await self._append_apart(batch, target, producer)

    async def _append_apart(self, batch: OutgoingBatch, target: _Target, producer: str) -> list[Answer]:
        """Append each message alone: the store refuses the content of one of them."""
        answers: list[Answer] = []
        for index, message in zip(target.indices, target.messages, strict=True):
            alone = Batch(target.stream, f"{producer}/{index}", batch.number, [message], target.limit)
            try:
                answers += await self._backend.append(alone)
            except (RequestRefused, ValueError) as error:
                await self._bury_refused(batch, index, target.stream, message, str(error))
                answers.append(Answer(message.id, "duplicate"))
        return answers

    async def _declare(self, topic: Stream) -> None:
        rules = self._topics.get(topic.name)
        if rules is not None and topic.name not in self._declared:
            await self._backend.declare_topic(topic, rules)
            self._declared.add(topic.name)

    async def _conclude(self, target: _Target, answers: list[Answer], sending: _Sending) -> None:
        """Announce what was stored. What found no room stays, or becomes a dead letter."""
        for index, message, answer in zip(target.indices, target.messages, answers, strict=True):
            if is_refused(message, answer) and answer.id != message.id:  # else it is a repeat
                text = f"job {answer.id} has its unique key or id already, and on_duplicate is 'raise'"
                await self._bury(target.stream, message, text)
            elif answer.verdict != "full":
                self._announce(target.stream, message, answer)
            elif answer.why or self.source.waits_for_room or target.stream.kind != "queue":
                sending.kept.append(index)
            else:
                noun = "job" if target.limit == 1 else "jobs"
                text = f"queue {target.stream.name!r} held its limit of {target.limit} {noun}"
                await self._bury(target.stream, message, text)

    async def _bury(
        self, stream: Stream, message: Message, text: str, reason: DeadReason = DeadReason.REFUSED
    ) -> None:
        if stream.kind == "topic":
            raise BackendUnavailable(f"topic {stream.name!r} does not take an event: {text}")
        failure = Failure(reason.value, text)
        await self._call_on_death(stream, message, reason, failure)
        await self._backend.bury(stream, [Refusal(message, reason, failure)])
        self._emitter.emit(self._died(stream, message, reason, failure))

    async def _call_on_death(
        self, stream: Stream, message: Message, reason: DeadReason, failure: Failure
    ) -> None:
        """Enqueue the call for a job that dies here. It is one call, however often this is repeated."""
        if self._deaths is None:
            return
        call = self._deaths.call(stream, (message.id, "refused"), message.task, reason, failure)
        if call is not None:
            producer = f"on_dead:{call.message.id}"
            await self._backend.append(Batch(call.stream, producer, 1, [call.message], None))

    def _died(self, stream: Stream, message: Message, reason: DeadReason, failure: Failure) -> JobDied:
        record = Record(
            stream,
            message.id,
            JobStatus.DEAD,
            task=message.task,
            body=message.body,
            ended_us=SystemClock().now_us(),
            reason=reason,
            failure=failure,
        )
        return JobDied(
            message.id,
            message.task,
            stream.name,
            attempt=0,
            reason=reason.value,
            error_type=failure.error_type,
            error=failure.error,
            dead_letter=opened_letter(dead_letter_of(record)),
        )

    async def _bury_refused(
        self, batch: OutgoingBatch, index: int, stream: Stream, message: Message, text: str
    ) -> None:
        """Make a dead letter of what its target never takes: otherwise it would hold up all that follows."""
        if stream.kind != "topic":
            try:
                await self._bury(stream, message, text)
                return
            except (RequestRefused, ValueError):
                pass  # its id, or the name of its queue, is what the store refuses
        text = f"{stream.kind} {stream.name!r} does not take it: {text}"
        await self._bury_content(batch, index, text, DeadReason.REFUSED)

    async def _bury_unreadable(self, batch: OutgoingBatch, sending: _Sending) -> None:
        for index, text in sending.unreadable:
            await self._bury_content(batch, index, text, DeadReason.UNDECODABLE)

    async def _bury_content(self, batch: OutgoingBatch, index: int, text: str, reason: DeadReason) -> None:
        """Keep the bytes of an entry, under an id of their own."""
        id = f"outgoing-{batch.producer.rpartition(':')[2]}-{batch.number}-{index}"
        message = Message(id, "", batch.entries[index].content)
        await self._bury(batch.origin or UNREADABLE, message, text, reason)

    def _announce(self, stream: Stream, message: Message, answer: Answer) -> None:
        signal = JobEnqueued if stream.kind == "queue" else EventPublished
        if signal in self._emitter.wanted:
            duplicate = answer.known
            names = (stream.name, message.task) if signal is EventPublished else (message.task, stream.name)
            self._emitter.emit(signal(answer.id, *names, duplicate))


class _Target(msgspec.Struct):
    """The messages of a batch for one stream, and their indices in the batch."""

    stream: Stream
    limit: int | None
    indices: list[int] = []
    messages: list[Message] = []


class _Sending:
    """A batch, sorted by target in the order of the outbox."""

    def __init__(self, batch: OutgoingBatch, *, limited: bool) -> None:
        self._limited = limited
        self.kept: list[int] = []
        self.unreadable: list[tuple[int, str]] = []
        self._targets: dict[tuple[Stream, int | None], _Target] = {}
        for index, entry in enumerate(batch.entries):
            try:
                self._add(index, decode_outgoing(entry.content), entry.waited_us)
            except DECODE_ERRORS as error:
                self.unreadable.append((index, f"it cannot be read: {error}"))

    @property
    def targets(self) -> Sequence[_Target]:
        return list(self._targets.values())

    def _add(self, index: int, outgoing: Outgoing, waited_us: int) -> None:
        key = outgoing.stream, outgoing.limit if self._limited else None
        target = self._targets.setdefault(key, _Target(*key))
        target.indices.append(index)
        target.messages.append(outgoing.aged(waited_us))
