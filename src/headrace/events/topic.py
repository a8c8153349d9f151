"""Topics and patterns of topics: events are published to them, and handlers subscribe to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

import msgspec

from headrace.core.encoding.annotations import names_in_sight
from headrace.core.encoding.upcasts import Upcasts
from headrace.core.errors import ConfigurationError
from headrace.core.messages.retry import RetryFunction, RetryPolicy
from headrace.core.topics.start import StartAt, start_of
from headrace.core.topics.topic import Start
from headrace.core.values.checks import unknown_option
from headrace.core.values.shown_options import shows_options
from headrace.engine.app_loop.portal import Portal
from headrace.engine.declared.subscription import Acknowledgement, SubscriptionOptions

from .consumer import Consumer
from .delivery import Delivery
from .encoder import EventDraft, EventEncoder
from .event import Event, PublishOutcome, Refused, handed_on
from .options import (
    BatchSettings,
    EventOptions,
    SubscriptionSettings,
    TopicOptions,
    checked_ack,
    subscription_options,
)
from .sync_topic import SyncTopic
from .versions import PayloadUpcast

#: How many events a consumer holds at most by default.
PULLED = 10

#: Seconds for which the job of an event is remembered.
REMEMBERED = 3600.0

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)


class FedOptions(Protocol):
    """What `feed` asks of a task's options."""

    @property
    def unique(self) -> bool: ...


class Fed(Protocol[T_contra]):
    """A task that takes one argument, as `feed` sees it."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> FedOptions: ...
    def with_(
        self, *, job_id: str, headers: Mapping[str, str], unique_key: str = ..., unique_until: float = ...
    ) -> Fed[T_contra]: ...
    def call(self, payload: T_contra, /) -> object: ...


class Subscribe(Protocol[T]):
    """What `topic.subscribe(...)` returns: a decorator for a function of the payload, the event or the
    delivery."""

    @overload
    def __call__(self, handler: Callable[[Delivery[T]], R], /) -> Callable[[Delivery[T]], R]: ...
    @overload
    def __call__(self, handler: Callable[[Event[T]], R], /) -> Callable[[Event[T]], R]: ...
    @overload
    def __call__(self, handler: Callable[[T], R], /) -> Callable[[T], R]: ...


class SubscribeBatch(Protocol[T]):
    """What `topic.subscribe(batch=...)` returns: a decorator for a function of a list of payloads or
    events."""

    @overload
    def __call__(self, handler: Callable[[list[Event[T]]], R], /) -> Callable[[list[Event[T]]], R]: ...
    @overload
    def __call__(self, handler: Callable[[list[T]], R], /) -> Callable[[list[T]], R]: ...


class Publisher(Protocol):
    """What a topic needs of the app."""

    @property
    def portal(self) -> Portal: ...
    async def publish(self, topic: Topic[Any], draft: EventDraft[Any], /) -> str: ...
    async def publish_many(
        self, topic: Topic[Any], drafts: list[EventDraft[Any]], /
    ) -> list[PublishOutcome]: ...
    async def replay(self, topic: str, group: str, start: Start, /) -> None: ...
    async def publish_within(
        self, topic: Topic[Any], drafts: list[EventDraft[Any]], transaction: object, /
    ) -> list[PublishOutcome]: ...
    def consume(
        self, topic: Topic[Any], options: SubscriptionOptions, ack: Acknowledgement, /
    ) -> Consumer[Any]: ...
    def refuse_while_running(self, what: str, /) -> None: ...
    def forward(self, call: object, /) -> None: ...
    def subscribe(
        self,
        topic: Topic[Any] | TopicPattern[Any],
        function: Callable[..., Any],
        options: SubscriptionOptions,
        local_names: Mapping[str, Any],
        /,
    ) -> None: ...


class _Subscribable(Generic[T]):
    """What topics and patterns share."""

    name: str
    wanted: Any
    _publisher: Publisher

    @overload
    def subscribe(
        self, group: str | None = ..., *, batch: None = ..., **options: Unpack[SubscriptionSettings]
    ) -> Subscribe[T]: ...
    @overload
    def subscribe(
        self, group: str | None = ..., *, batch: int, **options: Unpack[BatchSettings]
    ) -> SubscribeBatch[T]: ...

    @shows_options(SubscriptionSettings, subscription_options)
    def subscribe(
        self, group: str | None = None, *, batch: int | None = None, **options: Unpack[SubscriptionSettings]
    ) -> Any:
        """Handle events: `@orders.subscribe(group="billing")` on a function of one event.

        The function takes the payload, `Event[...]` or `Delivery[...]`. Each group gets every event, and the
        members of one group share them.

        - `group`: the name of the group; None: only with `fan_out`
        - `batch`: the function takes a list of at most so many payloads or events. None: one at a time
        - `retry`: a `RetryPolicy`, or a function `(failures, error) -> delay | None`. None: the policy of the
          app
        - `max_in_flight`: how many events one worker holds at most. None: 64, or two batches if that is more
        - `start`: where a new group begins: `"new"`, `"beginning"`, the id of an event, or a datetime with a
          time zone
        - `fan_out`: there is no group: every process gets every event while it runs
        - `ordered`: events of one key are handled one at a time, in order
        - `schema_versions`: the versions that it takes, such as `range(1, 3)`. Events of other versions go to
          the dead letters of the group, unless an upcast of the topic leads to one of these. None: all
        - `ack`: an event is settled by the success of its handler (`"success"`), before it is handled
          (`"receipt"`), or by the handler itself (`"manual"`)
        """
        checked = subscription_options(group, batch=batch, **options)
        local_names = names_in_sight(1)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise ConfigurationError(f"a handler is a function, not {function!r}")
            self._publisher.subscribe(self, function, checked, local_names)  # type: ignore[arg-type]
            return function

        return declare


class Topic(_Subscribable[T]):
    """A named log of events. Made by `app.topic(name, type)`."""

    def __init__(
        self, options: TopicOptions, wanted: Any, *, encoder: EventEncoder, publisher: Publisher
    ) -> None:
        self.name: str = options.name
        self.options = options
        self.wanted = wanted
        self.encoder = encoder
        self.upcasts: Upcasts[PayloadUpcast] = Upcasts(f"topic {options.name}", options.schema_version)
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    def upcast(self, *, from_version: int) -> Callable[[PayloadUpcast], PayloadUpcast]:
        """Read events of an older schema version: `@orders.upcast(from_version=1)` on a function over the
        payload as plain data, which leads to the next version.

        The topic names its version with `app.topic(..., schema_version=2)`. Subscriptions of this topic then
        get older events in this version. A worker with an older version hands newer events back.
        """

        def declare(function: PayloadUpcast) -> PayloadUpcast:
            self._publisher.refuse_while_running(f"an upcast of {self.name!r}")
            return self.upcasts.add(from_version, function)

        return declare

    @property
    def sync(self) -> SyncTopic[T]:
        """For plain code: `orders.sync.publish(OrderPlaced(7))`, in threads and beside a running event
        loop."""
        return SyncTopic(self._publisher.portal, self)

    @shows_options(EventOptions, EventDraft)
    async def publish(self, event: T, *, transaction: object = None, **options: Unpack[EventOptions]) -> str:
        """Store one event for every group, and return its id: `await orders.publish(OrderPlaced(7),
        key="customer-3")`.

        When this returns, the event will be delivered.

        - `event`: the payload
        - `transaction`: a connection of yours; the event is published if, and only if, its open transaction
          commits
        - `key`: ordered groups handle events of one key one at a time, in order
        - `headers`: texts that travel with the event
        - `kind`: the kind of the event. None: the name of its type
        - `source`: where the event comes from
        - `delay`: how long the event waits before it may be delivered
        - `at`: when the event may be delivered, a datetime with a time zone; in place of `delay`
        - `expires`: how long the event may wait for its handler
        - `idempotency_key`: events with the same key are stored once within the window of the topic; the id
          is then the id of the first
        - `correlation_id`: None: that of the job or event whose handler publishes this event
        - `schema_version`: None: that of the topic
        - `occurred_at`: when it happened, a datetime with a time zone. None: the time of publishing
        - `content_type`: what the payload is, as a text for its readers. None: `application/msgpack`. It does
          not change how the payload is encoded
        """
        draft = self.message(event, **options)
        if transaction is None:
            return await self._publisher.publish(self, draft)
        [outcome] = await self._publisher.publish_within(self, [draft], transaction)
        if isinstance(outcome, Refused):
            raise outcome.error
        return outcome.id

    async def publish_many(
        self, events: Iterable[T | EventDraft[T]], *, transaction: object = None
    ) -> list[PublishOutcome]:
        """Store many events, a few hundred with each write. They are payloads, or made by `message()`.

        The outcomes are in the order of the events: `Published(id)`, `Duplicate(id)` or `Refused(error)`. An
        event that is refused does not affect the others. `transaction` is as in `publish`.
        """
        drafts = [each if isinstance(each, EventDraft) else EventDraft(each) for each in events]
        if transaction is not None:
            return await self._publisher.publish_within(self, drafts, transaction)
        return await self._publisher.publish_many(self, drafts)

    @shows_options(EventOptions, EventDraft)
    def message(self, payload: T, **options: Unpack[EventOptions]) -> EventDraft[T]:
        """An event with options for `publish_many`: `orders.message(OrderPlaced(7), key="customer-3")`. The
        options are those of `publish`."""
        try:
            return EventDraft(payload, **options)
        except TypeError:
            known = EventOptions.__annotations__
            raise unknown_option("publish()", next(iter(options.keys() - known.keys())), known) from None

    async def replay(self, *, group: str, since: StartAt = "beginning") -> None:
        """Let a group read the log again from `since`: the id of an event, a time, or `"beginning"`.

        A group that has not come to `since` yet stays where it is, and misses no event. An event that the
        group holds at this moment may be delivered to it again. An ordered group gets events again in their
        order, so that the newest event of each key comes last.

        - `group`: the group that reads again
        - `since`: where it begins
        """
        await self._publisher.replay(self.name, group, start_of(since, "since"))

    def consume(
        self,
        group: str,
        *,
        ack: Acknowledgement = "manual",
        start: StartAt = "new",
        max_in_flight: int = PULLED,
        retry: RetryPolicy | RetryFunction | None = None,
        ordered: bool = False,
    ) -> Consumer[T]:
        """Pull events: `async with orders.consume(group="audit") as deliveries:`, and in this block `async
        for delivery in deliveries:`.

        The consumer is a member of the group while the block is open. Leaving the block hands back what is
        not settled; this uses up no retry.

        - `group`: the group; its members share the events
        - `ack`: an event is settled by `delivery.ack()`, `.reject()` or `.retry()` (`"manual"`, the default),
          when the next one is asked for (`"success"`), or when it is given (`"receipt"`)
        - `start`: where a new group begins, as in `subscribe`; by default with new events
        - `max_in_flight`: how many events the consumer holds at most, 10 by default
        - `retry`: bounds `delivery.retry()`; by default the policy of the app
        - `ordered`: events of one key are given one at a time, in order; False by default
        """
        # A group that is settled by hand, or here: its handler ends when the user has gone on.
        options = subscription_options(
            group,
            ack="manual" if checked_ack(ack) == "manual" else "success",
            start=start,
            max_in_flight=max_in_flight,
            retry=retry,
            ordered=ordered,
        )
        return self._publisher.consume(self, options, ack)

    def feed(self, task: Fed[T], *, group: str | None = None, start: StartAt = "new") -> None:
        """Start a job of `task` for each event, with the payload as its argument.

        The step that settles the event writes the job into an outbox, and a relay enqueues it. While the
        queue is full, the job waits in the outbox. The id of the job is made from the id of the event and
        remembered for an hour, so that an event that is delivered twice starts one job. The job carries the
        headers, the trace and the correlation id of the event.

        - `task`: a task of one argument
        - `group`: the name of the group. None: `feed:` and the name of the task
        - `start`: where a new group begins, as in `subscribe`
        """

        async def feed(event: Event[T]) -> None:
            job_id = f"{event.id}:{task.name}"
            headers = handed_on(event)
            # A unique task has a unique key of its own. Then only the id of the job prevents a second one.
            fed = (
                task.with_(job_id=job_id, headers=headers)
                if task.options.unique
                else task.with_(job_id=job_id, headers=headers, unique_key=job_id, unique_until=REMEMBERED)
            )
            self._publisher.forward(fed.call(event.payload))

        options = subscription_options(group or f"feed:{task.name}"[:100], start=start)
        options = msgspec.structs.replace(options, forwards=True)
        self._publisher.subscribe(self, feed, options, names_in_sight(1))


class TopicPattern(_Subscribable[T]):
    """Every topic that matches, also topics that are made later. Made by `app.topics("orders.*", type)`."""

    def __init__(self, pattern: str, wanted: Any, *, publisher: Publisher) -> None:
        self.name = pattern
        self.wanted = wanted
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<TopicPattern {self.name}>"
