"""The events of an app: declares topics and subscriptions, and publishes events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Unpack

from headrace.core.encoding.codec import binding
from headrace.core.errors import (
    BackendUnavailable,
    ConfigurationError,
    NotConfirmed,
    NotDurable,
    QueueFull,
    no_such_group,
)
from headrace.core.messages.message import Message, Stream, group_stream
from headrace.core.messages.outgoing import Outgoing
from headrace.core.messages.sending import TRACEPARENT, Sending, SendingWrapper
from headrace.core.records.answers import Answer
from headrace.core.signals import EventPublished
from headrace.core.topics.topic import Start
from headrace.core.values.names import checked_name
from headrace.engine.app_loop.app_parts import AppParts
from headrace.engine.app_loop.portal import Portal
from headrace.engine.app_loop.retrying import RETRY_TIME, with_retries
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import (
    FAN_OUT_MARK,
    Acknowledgement,
    Subscription,
    SubscriptionOptions,
)
from headrace.engine.running.run import current_run
from headrace.engine.worker.options import WorkerOptions
from headrace.engine.worker.worker import Worker

from .consumer import Consumer, HandOver
from .encoder import EventDraft, EventEncoder
from .event import Duplicate, Inherited, Published, PublishOutcome, Refused, inherited
from .handlers import EventReader, handler_of
from .options import TopicSettings, checked_pattern, topic_options
from .topic import Topic, TopicPattern
from .versions import EventVersions

#: Events that are encoded at a time while the store writes those before.
PAGE = 500

#: The lease of a consumer, in seconds: that of workers by default.
PULLING_LEASE = 15.0


class Events:
    """Makes topics and subscriptions, and publishes events. Made by the app."""

    def __init__(self, parts: AppParts, outgoing_of: Callable[[Any], Outgoing]) -> None:
        """`outgoing_of` gives the message of a call, for events that start jobs."""
        self._outgoing_of = outgoing_of
        self.portal: Portal = parts.portal
        self._transactions = parts.transactions
        self._app_loop = parts.app_loop
        self._registry = parts.registry
        self._emitter = parts.emitter
        self._codec = parts.codec
        self._max_payload = parts.max_payload
        self._retry = parts.retry
        self.around: SendingWrapper | None = None  # entered around every sending, for tracing
        self._topics: dict[str, Topic[Any]] = {}
        self._readers: list[EventReader] = []
        self._fan_outs = count(1)

    # --- declaring ---------------------------------------------------------------------------------------

    def topic(self, name: str, wanted: Any, **settings: Unpack[TopicSettings]) -> Topic[Any]:
        """Declare a topic. Declaring it again with the same options returns the same topic."""
        options = topic_options(name, **settings)
        known = self._topics.get(options.name)
        if known is not None:
            if known.options != options or known.wanted != wanted:
                raise ConfigurationError(f"topic {options.name!r} is declared twice, with different options")
            return known
        encoder = EventEncoder(
            topic=options.name,
            wanted=wanted,
            schema_version=options.schema_version,
            window_us=options.window_us,
            clock=self._app_loop.clock,
            codec=self._codec,
            max_payload=self._max_payload,
        )
        topic = self._topics[options.name] = Topic(options, wanted, encoder=encoder, publisher=self)
        if options.partitions is not None:
            self._app_loop.backend.declare(Stream("topic", options.name), options.partitions)
        return topic

    def pattern(self, pattern: str, wanted: Any) -> TopicPattern[Any]:
        """Every topic whose name matches `pattern`."""
        return TopicPattern(checked_pattern(pattern), wanted, publisher=self)

    def subscribe(
        self,
        topic: Topic[Any] | TopicPattern[Any],
        function: Callable[..., Any],
        options: SubscriptionOptions,
        local_names: Mapping[str, Any],
    ) -> None:
        """Register a function as the handler of a subscription."""
        if isinstance(topic, TopicPattern) and options.start.at == "event":
            raise ConfigurationError(
                f"start={options.start.event!r} on {topic.name}: an event's id belongs to one topic; "
                "begin at a time instead"
            )
        versions = EventVersions(self._topics, options.schema_versions)
        reader = EventReader(function, topic.wanted, options, self._codec, local_names, versions)
        reader.check()
        group = options.group or f"{FAN_OUT_MARK}{next(self._fan_outs)}"
        handler = handler_of(
            function,
            reader,
            f"{topic.name}/{group}",
            options.retry or self._retry,
            batch=options.batch is not None,
        )
        self._registry.subscribe(
            Subscription(
                topic.name,
                group,
                handler,
                options,
                rules=topic.options.rules if isinstance(topic, Topic) else None,
            )
        )
        self._readers.append(reader)

    def refuse_while_running(self, what: str) -> None:
        """Raise while a worker of the app runs."""
        self._registry.refuse_while_running(what)

    def consume(self, topic: Topic[Any], options: SubscriptionOptions, ack: Acknowledgement) -> Consumer[Any]:
        """A consumer of a topic; see `Topic.consume`."""
        return Consumer(ack, partial(self._pulling, topic, options))

    def _pulling(self, topic: Topic[Any], options: SubscriptionOptions, hand_over: HandOver) -> Worker:
        """A worker that passes the events of one group on."""
        versions = EventVersions(self._topics, None)
        reader = EventReader(hand_over, topic.wanted, options, self._codec, {}, versions)
        name = f"{topic.name}/{options.group}"
        handler = handler_of(hand_over, reader, name, options.retry or self._retry, batch=False)
        registry = Registry(codec=binding(self._codec))
        rules = topic.options.rules
        registry.subscribe(Subscription(topic.name, options.group or "", handler, options, rules))
        return Worker(
            WorkerOptions(
                queues=(),
                concurrency=options.max_in_flight,
                children=1,
                lease=PULLING_LEASE,
                grace=0.0,
                max_payload=self._max_payload,
                end_record_ttl=0.0,
            ),
            app_loop=self._app_loop,
            registry=registry,
            emitter=self._emitter,
            subscriptions=registry.subscriptions,
        )

    def resolve(self) -> None:
        """Check the annotations of every handler. A worker does this before its first event."""
        for reader in self._readers:
            reader.resolve()

    @property
    def topics(self) -> Mapping[str, Topic[Any]]:
        """The declared topics by name."""
        return self._topics

    # --- publishing --------------------------------------------------------------------------------------

    async def publish(
        self, topic: Topic[Any], draft: EventDraft[Any], traced: Inherited | None = None
    ) -> str:
        """Store one event; see `Topic.publish`. `traced` is given where a wrapper is entered already."""
        if traced is None and self.around is not None:
            return await self._publish_wrapped(self.around, topic, draft)
        message = topic.encoder.encode(draft, traced or inherited())
        since = time.monotonic()
        await self._app_loop.opened()
        try:
            [answer] = await self._app_loop.call(self._append, topic, [message], since)
        except NotConfirmed as error:
            raise NotDurable(str(error), event=error.answers[0].id) from error
        outcome = _outcome(answer)
        if isinstance(outcome, Refused):
            raise outcome.error
        return outcome.id

    async def publish_many(self, topic: Topic[Any], drafts: list[EventDraft[Any]]) -> list[PublishOutcome]:
        """Store many events; see `Topic.publish_many`."""
        if self.around is None or not drafts:
            return await self._app_loop.carry_out(self._publish_many, topic, drafts, inherited())
        sending = Sending("event", topic.name, len(drafts), headers=drafts[0].headers or {})
        with self.around(sending):
            traced = _traced(sending)
            outcomes = await self._app_loop.carry_out(self._publish_many, topic, drafts, traced)
            sending.ids = [each.id for each in outcomes if not isinstance(each, Refused)]
            return outcomes

    async def _publish_wrapped(
        self, around: SendingWrapper, topic: Topic[Any], draft: EventDraft[Any]
    ) -> str:
        sending = Sending("event", topic.name, 1, draft.kind or "", draft.headers or {})
        with around(sending):
            id = await self.publish(topic, draft, _traced(sending))
            sending.ids = (id,)
            return id

    async def publish_within(
        self, topic: Topic[Any], drafts: list[EventDraft[Any]], transaction: object
    ) -> list[PublishOutcome]:
        """Write events in a transaction of the user; see `Topic.publish_many`. A relay publishes them once it
        has committed."""
        traced = inherited()
        page = [_encoded(topic.encoder, draft, traced) for draft in drafts]
        stream = Stream("topic", topic.name)
        messages = [each for each in page if isinstance(each, Message)]
        answers = await self._transactions.write(transaction, [Outgoing(stream, each) for each in messages])
        known = answers if answers is not None else [Answer(each.id) for each in messages]
        outcomes = iter(map(_outcome, known))
        return [next(outcomes) if isinstance(each, Message) else each for each in page]

    def forward(self, call: object) -> None:
        """Enqueue a call with the settlement of the event whose handler runs now."""
        run = current_run.get()
        run.forwards = (*run.forwards, self._outgoing_of(call))

    async def replay(self, topic: str, group: str, start: Start) -> None:
        """Let a group of a topic read again from `start`; see `Topic.replay`."""
        stream = group_stream(topic, checked_name("group", group))
        if not await self._app_loop.ask(lambda store: store.rewind(stream, start)):
            raise no_such_group(topic, group)

    async def _publish_many(
        self, topic: Topic[Any], drafts: list[EventDraft[Any]], traced: Inherited
    ) -> list[PublishOutcome]:
        """Publish a page at a time: the next page is encoded while the store writes the one before."""
        outcomes: list[PublishOutcome] = []
        sending: asyncio.Task[list[PublishOutcome]] | None = None
        try:
            for start in range(0, len(drafts), PAGE):
                page = [_encoded(topic.encoder, draft, traced) for draft in drafts[start : start + PAGE]]
                if sending is not None:
                    outcomes += await sending
                error = _gone(outcomes)
                if error is not None:  # the rest is not tried: each page would wait as long as this one
                    return outcomes + [Refused(error)] * (len(drafts) - len(outcomes))
                sending = asyncio.create_task(self._sent(topic, page))
                await asyncio.sleep(0)
            return outcomes + (await sending if sending is not None else [])
        finally:
            if sending is not None and not sending.done():
                sending.cancel()  # the caller was cancelled; what the producer has already is still sent

    async def _sent(self, topic: Topic[Any], page: list[Message | Refused]) -> list[PublishOutcome]:
        messages = [each for each in page if isinstance(each, Message)]
        try:
            answers = iter(await self._append(topic, messages) if messages else [])
        except NotConfirmed as error:
            outcomes = iter(_not_durable(error, len(messages)))
            return [next(outcomes) if isinstance(each, Message) else each for each in page]
        except Exception as error:
            refused = Refused(error)
            return [refused if isinstance(each, Message) else each for each in page]
        return [_outcome(next(answers)) if isinstance(each, Message) else each for each in page]

    async def _append(
        self, topic: Topic[Any], messages: list[Message], since: float | None = None
    ) -> list[Answer]:
        since = time.monotonic() if since is None else since
        stream = Stream("topic", topic.name)
        if topic.name not in self._app_loop.declared_topics:
            left = since + RETRY_TIME - time.monotonic()
            await with_retries(
                lambda: self._app_loop.backend.declare_topic(stream, topic.options.rules),
                within=max(0.0, left),
            )
            self._app_loop.declared_topics.add(topic.name)
        answers = await self._app_loop.producer.append(stream, messages, topic.options.limit, since)
        if EventPublished in self._emitter.wanted:
            for message, answer in zip(messages, answers, strict=True):
                if answer.verdict != "full":
                    duplicate = answer.verdict == "duplicate"
                    signal = EventPublished(answer.id, topic.name, message.task, duplicate)
                    self._app_loop.tell(self._emitter.emit, signal)
        return answers


def _traced(sending: Sending) -> Inherited:
    """What events inherit when a wrapper may have begun a trace."""
    traceparent, correlation_id = inherited()
    return sending.carried.get(TRACEPARENT) or traceparent, correlation_id


def _encoded(encoder: EventEncoder, draft: EventDraft[Any], traced: Inherited) -> Message | Refused:
    try:
        return encoder.encode(draft, traced)
    except Exception as error:  # the codec of the user may raise anything
        return Refused(error)


def _gone(outcomes: list[PublishOutcome]) -> BackendUnavailable | None:
    """The error after which no more events are sent: the store cannot be reached."""
    errors = (each.error for each in outcomes[-PAGE:] if isinstance(each, Refused))
    return next((error for error in errors if type(error) is BackendUnavailable), None)


def _not_durable(error: NotConfirmed, count: int) -> list[PublishOutcome]:
    """Each event that was taken has a `NotDurable` with its id. For the others the outcome is uncertain."""
    taken: list[PublishOutcome] = [
        Refused(NotDurable(str(error), event=answer.id)) for answer in error.answers
    ]
    return taken + [Refused(BackendUnavailable(str(error), uncertain=True))] * (count - len(taken))


def _full(answer: Answer) -> QueueFull:
    if answer.why:
        return QueueFull("the store has no room for more events; give it more memory")
    return QueueFull(
        "the topic holds as many events as its max_length allows, and its groups have not drawn them: try "
        "again later, add workers, or use overflow='drop_oldest'"
    )


def _outcome(answer: Answer) -> PublishOutcome:
    match answer.verdict:
        case "accepted":
            return Published(answer.id)
        case "duplicate":
            return Duplicate(answer.id)
        case _:
            return Refused(_full(answer))
