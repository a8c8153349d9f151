"""Topics and patterns of topics: events are published to them, and handlers subscribe to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from headrace.core.errors import ConfigurationError, QueueFull
from headrace.core.messages.directives import Snooze
from headrace.core.topics.start import StartAt, start_of
from headrace.core.topics.topic import Start
from headrace.core.values.annotations import names_in_sight
from headrace.core.values.checks import unknown_option
from headrace.core.values.shown_options import shows_options
from headrace.engine.subscription import SubscriptionOptions

from .delivery import Delivery
from .encoder import EventDraft, EventEncoder
from .event import Event, PublishOutcome, handed_on
from .options import (
    BatchSettings,
    EventOptions,
    SubscriptionSettings,
    TopicOptions,
    subscription_options,
)

#: Seconds for which the job of an event is remembered.
REMEMBERED = 3600.0

#: Seconds after which a job is enqueued again when its queue was full.
FULL_DELAY = 1.0

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
    async def enqueue(self, payload: T_contra, /) -> object: ...


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

    async def publish(self, topic: Topic[Any], draft: EventDraft[Any], /) -> str: ...
    async def publish_many(
        self, topic: Topic[Any], drafts: list[EventDraft[Any]], /
    ) -> list[PublishOutcome]: ...
    async def replay(self, topic: str, group: str, start: Start, /) -> None: ...
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
        members of one group share them. With `fan_out=True` there is no group: every process gets every event
        while it runs. With `batch=100` the function takes a list of at most so many payloads or events.
        `SubscriptionSettings` lists the other options.
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
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    @shows_options(EventOptions, EventDraft)
    async def publish(self, event: T, **options: Unpack[EventOptions]) -> str:
        """Store one event for every group, and return its id: `await orders.publish(OrderPlaced(7),
        key="customer-3")`.

        When this returns, the event will be delivered. Events with the same `idempotency_key` within the
        window of the topic are stored once: the id is then the id of the first. `EventOptions` lists the
        options.
        """
        return await self._publisher.publish(self, self.message(event, **options))

    async def publish_many(self, events: Iterable[T | EventDraft[T]]) -> list[PublishOutcome]:
        """Store many events, a few hundred with each write. They are payloads, or made by `message()`.

        The outcomes are in the order of the events: `Published(id)`, `Duplicate(id)` or `Refused(error)`. An
        event that is refused does not affect the others.
        """
        drafts = [each if isinstance(each, EventDraft) else EventDraft(each) for each in events]
        return await self._publisher.publish_many(self, drafts)

    @shows_options(EventOptions, EventDraft)
    def message(self, payload: T, **options: Unpack[EventOptions]) -> EventDraft[T]:
        """An event with options for `publish_many`: `orders.message(OrderPlaced(7), key="customer-3")`."""
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
        """
        await self._publisher.replay(self.name, group, start_of(since, "since"))

    def feed(self, task: Fed[T], *, group: str | None = None, start: StartAt = "new") -> None:
        """Start a job of `task` for each event, with the payload as its argument.

        The id of the job is made from the id of the event and remembered for an hour, so that an event that
        is delivered twice starts one job. The job carries the headers, the trace and the correlation id of
        the event.
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
            try:
                await fed.enqueue(event.payload)
            except QueueFull as error:
                raise Snooze(FULL_DELAY) from error  # workers will catch up: the event is not a dead letter

        self.subscribe(group or f"feed:{task.name}"[:100], start=start)(feed)


class TopicPattern(_Subscribable[T]):
    """Every topic that matches, also topics that are made later. Made by `app.topics("orders.*", type)`."""

    def __init__(self, pattern: str, wanted: Any, *, publisher: Publisher) -> None:
        self.name = pattern
        self.wanted = wanted
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<TopicPattern {self.name}>"
