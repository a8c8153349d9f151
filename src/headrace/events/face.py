"""The events half of an app: declares topics and subscriptions, publishes events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from headrace.core.backend import Answer
from headrace.core.codec import Codec
from headrace.core.duration import Duration
from headrace.core.errors import BackendUnavailable, ConfigurationError, NotConfirmed, NotDurable, QueueFull
from headrace.core.message import Message, Stream, group_stream
from headrace.core.names import checked_name
from headrace.core.retry import RetryFunction, RetryPolicy
from headrace.core.sending import TRACEPARENT, Sending, SendingWrapper
from headrace.core.signals import EventPublished
from headrace.core.topics import Start
from headrace.engine.emitter import Emitter
from headrace.engine.home import Home
from headrace.engine.patience import PATIENCE, patiently
from headrace.engine.registry import Registry
from headrace.engine.subscription import FAN_OUT_MARK, Subscription

from .event import Duplicate, Outcome, Published, Refused
from .handlers import Handled, handler_of
from .letters import Draft, EventLetters, Heritage, Inherit
from .options import SubscriptionOptions, TopicOptions, checked_pattern, topic_options
from .topic import Topic, TopicPattern

#: How many events are written at a time while the store is at work on those before.
PAGE = 500


class Events:
    """Composed by the app from the engine's parts."""

    def __init__(
        self,
        *,
        home: Home,
        registry: Registry,
        emitter: Emitter,
        codec: Codec | None,
        max_payload: int,
        retry: RetryPolicy | RetryFunction,
        inherit: Inherit,
    ) -> None:
        self._home = home
        self._registry = registry
        self._emitter = emitter
        self._codec = codec
        self._max_payload = max_payload
        self._retry = retry
        self._inherit = inherit
        self.around: SendingWrapper | None = None  # whoever traces what is sent
        self._topics: dict[str, Topic[Any]] = {}
        self._handled: list[Handled] = []
        self._fan_outs = count(1)

    # --- declaring ---------------------------------------------------------------------------------------

    def topic(
        self,
        name: str,
        wanted: Any,
        *,
        retention: Duration | None,
        max_length: int | None,
        retention_strict: bool,
        idempotency_window: Duration,
        schema_version: int,
        partitions: int | None,
    ) -> Topic[Any]:
        """Declare a topic. The same declaration again gives the same topic."""
        options = topic_options(
            name,
            retention=retention,
            max_length=max_length,
            retention_strict=retention_strict,
            idempotency_window=idempotency_window,
            schema_version=schema_version,
            partitions=partitions,
        )
        known = self._topics.get(options.name)
        if known is not None:
            if known.options != options or known.wanted != wanted:
                raise ConfigurationError(f"topic {options.name!r} is declared twice, and not alike")
            return known
        letters = EventLetters(
            wanted=wanted,
            schema_version=options.schema_version,
            window_us=options.window_us,
            clock=self._home.clock,
            codec=self._codec,
            max_payload=self._max_payload,
            inherit=self._inherit,
        )
        topic = self._topics[options.name] = Topic(options, wanted, letters=letters, publisher=self)
        if options.partitions is not None:
            self._home.backend.declare(Stream("topic", options.name), options.partitions)
        return topic

    def pattern(self, pattern: str, wanted: Any) -> TopicPattern[Any]:
        return TopicPattern(checked_pattern(pattern), wanted, publisher=self)

    def subscribe(
        self,
        topic: Topic[Any] | TopicPattern[Any],
        function: Callable[..., Any],
        options: SubscriptionOptions,
        local_names: Mapping[str, Any],
    ) -> None:
        if isinstance(topic, TopicPattern) and options.start.at == "event":
            raise ConfigurationError(
                f"start={options.start.event!r} on {topic.name}: an event's id belongs to one topic; "
                "begin at a time instead"
            )
        handled = Handled(function, topic.wanted, options, self._codec, local_names)
        handled.check()
        group = options.group or f"{FAN_OUT_MARK}{next(self._fan_outs)}"
        handler = handler_of(
            function,
            handled,
            f"{topic.name}/{group}",
            options.retry or self._retry,
            batch=options.batch is not None,
        )
        self._registry.subscribe(
            Subscription(
                topic.name,
                group,
                handler,
                rules=topic.options.rules if isinstance(topic, Topic) else None,
                ack=options.ack,
                start=options.start,
                max_in_flight=options.max_in_flight,
                fan_out=options.fan_out,
                batch=options.batch,
                ordered=options.ordered,
            )
        )
        self._handled.append(handled)

    def resolve(self) -> None:
        """Check every handler's annotations; a worker does so before its first event."""
        for handled in self._handled:
            handled.resolve()

    @property
    def topics(self) -> Mapping[str, Topic[Any]]:
        return self._topics

    # --- publishing --------------------------------------------------------------------------------------

    async def publish(
        self,
        topic: TopicOptions,
        letters: EventLetters,
        draft: Draft[Any],
        heritage: Heritage | None = None,
    ) -> str:
        if heritage is None and self.around is not None:
            return await self._publish_wrapped(self.around, topic, letters, draft)
        message = letters.write(draft, heritage or letters.inherit())
        since = time.monotonic()
        await self._home.opened()
        try:
            [answer] = await self._home.call(self._append, topic, [message], since)
        except NotConfirmed as error:
            raise NotDurable(str(error), event=error.answers[0].id) from error
        outcome = _outcome(answer)
        if isinstance(outcome, Refused):
            raise outcome.error
        return outcome.id

    async def publish_many(
        self, topic: TopicOptions, letters: EventLetters, drafts: list[Draft[Any]]
    ) -> list[Outcome]:
        heritage = letters.inherit()
        if self.around is None or not drafts:
            return await self._home.carry_out(self._publish_many, topic, letters, drafts, heritage)
        sending = Sending("event", topic.name, len(drafts), headers=drafts[0].headers or {})
        with self.around(sending):
            heritage = (sending.carried.get(TRACEPARENT) or heritage[0], heritage[1])
            outcomes = await self._home.carry_out(self._publish_many, topic, letters, drafts, heritage)
            sending.ids = [each.id for each in outcomes if not isinstance(each, Refused)]
            return outcomes

    async def _publish_wrapped(
        self, around: SendingWrapper, topic: TopicOptions, letters: EventLetters, draft: Draft[Any]
    ) -> str:
        sending = Sending("event", topic.name, 1, draft.kind or "", draft.headers or {})
        with around(sending):
            traceparent, correlation_id = letters.inherit()
            heritage = (sending.carried.get(TRACEPARENT) or traceparent, correlation_id)
            id = await self.publish(topic, letters, draft, heritage)
            sending.ids = (id,)
            return id

    async def replay(self, topic: str, group: str, start: Start) -> None:
        stream = group_stream(topic, checked_name("group", group))
        if not await self._home.ask(lambda store: store.reset(stream, start)):
            raise ConfigurationError(f"topic {topic!r} has no group {group!r}")

    async def _publish_many(
        self, topic: TopicOptions, letters: EventLetters, drafts: list[Draft[Any]], heritage: Heritage
    ) -> list[Outcome]:
        """A page at a time: the next is written while the store is at work on the one before."""
        outcomes: list[Outcome] = []
        sending: asyncio.Task[list[Outcome]] | None = None
        try:
            for start in range(0, len(drafts), PAGE):
                page = [_written(letters, draft, heritage) for draft in drafts[start : start + PAGE]]
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
                sending.cancel()  # the caller was; what has been handed to the producer goes its way

    async def _sent(self, topic: TopicOptions, page: list[Message | Refused]) -> list[Outcome]:
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
        self, topic: TopicOptions, messages: list[Message], since: float | None = None
    ) -> list[Answer]:
        since = time.monotonic() if since is None else since
        stream = Stream("topic", topic.name)
        if topic.name not in self._home.declared_topics:
            left = since + PATIENCE - time.monotonic()
            await patiently(lambda: self._home.backend.arrange(stream, topic.rules), within=max(0.0, left))
            self._home.declared_topics.add(topic.name)
        answers = await self._home.producer.append(stream, messages, None, since)
        if EventPublished in self._emitter.wanted:
            for message, answer in zip(messages, answers, strict=True):
                if answer.verdict != "full":
                    duplicate = answer.verdict == "duplicate"
                    signal = EventPublished(answer.id, topic.name, message.task, duplicate)
                    self._home.tell(self._emitter.emit, signal)
        return answers


def _written(letters: EventLetters, draft: Draft[Any], heritage: Heritage) -> Message | Refused:
    try:
        return letters.write(draft, heritage)
    except Exception as error:  # a codec of the user's may raise whatever it likes
        return Refused(error)


def _gone(outcomes: list[Outcome]) -> BackendUnavailable | None:
    """Why there is no use in sending more."""
    errors = (each.error for each in outcomes[-PAGE:] if isinstance(each, Refused))
    return next((error for error in errors if type(error) is BackendUnavailable), None)


def _not_durable(error: NotConfirmed, count: int) -> list[Outcome]:
    """Those that were taken say so, each with its own id; of the others nothing is known."""
    taken: list[Outcome] = [Refused(NotDurable(str(error), event=answer.id)) for answer in error.answers]
    return taken + [Refused(BackendUnavailable(str(error), uncertain=True))] * (count - len(taken))


def _outcome(answer: Answer) -> Outcome:
    match answer.verdict:
        case "accepted":
            return Published(answer.id)
        case "duplicate":
            return Duplicate(answer.id)
        case _:
            return Refused(QueueFull("the store has no room for more events: it refused this one"))
