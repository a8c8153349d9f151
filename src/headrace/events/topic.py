"""A topic, and patterns of topics: where events are published and handlers subscribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from headrace.core.directives import Snooze
from headrace.core.duration import Duration
from headrace.core.errors import ConfigurationError, QueueFull
from headrace.core.hints import names_in_sight
from headrace.core.retry import RetryFunction, RetryPolicy
from headrace.core.starts import StartAt, start_of
from headrace.core.topics import Start
from headrace.engine.subscription import Acknowledgement

from .delivery import Delivery
from .event import Event, Outcome, handed_on
from .letters import Draft, EventLetters
from .options import SubscriptionOptions, TopicOptions, subscription_options

#: Seconds for which it is remembered that an event has started its job.
REMEMBERED = 3600.0

#: Seconds after which a job is enqueued again that its queue had no room for.
FULL = 1.0

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
    """What `@topic.subscribe(...)` stands on: a function of the payload, the event or the delivery."""

    @overload
    def __call__(self, handler: Callable[[Delivery[T]], R], /) -> Callable[[Delivery[T]], R]: ...
    @overload
    def __call__(self, handler: Callable[[Event[T]], R], /) -> Callable[[Event[T]], R]: ...
    @overload
    def __call__(self, handler: Callable[[T], R], /) -> Callable[[T], R]: ...


class SubscribeBatch(Protocol[T]):
    """The same with `batch=`: a list of any of them."""

    @overload
    def __call__(self, handler: Callable[[list[Event[T]]], R], /) -> Callable[[list[Event[T]]], R]: ...
    @overload
    def __call__(self, handler: Callable[[list[T]], R], /) -> Callable[[list[T]], R]: ...


class Publisher(Protocol):
    """What a topic needs of the app."""

    async def publish(self, topic: TopicOptions, letters: EventLetters, draft: Draft[Any], /) -> str: ...
    async def publish_many(
        self, topic: TopicOptions, letters: EventLetters, drafts: list[Draft[Any]], /
    ) -> list[Outcome]: ...
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
    """What topics and patterns have in common."""

    name: str
    wanted: Any
    _publisher: Publisher

    @overload
    def subscribe(
        self,
        group: str | None = ...,
        *,
        ack: Acknowledgement = ...,
        retry: RetryPolicy | RetryFunction | None = ...,
        max_in_flight: int | None = ...,
        start: StartAt = ...,
        fan_out: bool = ...,
        batch: None = ...,
        ordered: bool = ...,
    ) -> Subscribe[T]: ...
    @overload
    def subscribe(
        self,
        group: str | None = ...,
        *,
        batch: int,
        ack: Literal["success", "receipt"] = ...,
        retry: RetryPolicy | RetryFunction | None = ...,
        max_in_flight: int | None = ...,
        start: StartAt = ...,
        fan_out: bool = ...,
        ordered: bool = ...,
    ) -> SubscribeBatch[T]: ...

    def subscribe(
        self,
        group: str | None = None,
        *,
        ack: Acknowledgement = "success",
        retry: RetryPolicy | RetryFunction | None = None,
        max_in_flight: int | None = None,
        start: StartAt = "new",
        fan_out: bool = False,
        batch: int | None = None,
        ordered: bool = False,
    ) -> Any:
        """Handle events: `@orders.subscribe(group="billing")` over a function of one event.

        Each group sees every event, and its members share them. With `fan_out=True` every process gets every
        event while it runs. `ack`: settled by success (the default), on receipt, or by hand.
        """
        options = subscription_options(
            group,
            ack=ack,
            retry=retry,
            max_in_flight=max_in_flight,
            start=start,
            fan_out=fan_out,
            batch=batch,
            ordered=ordered,
        )
        local_names = names_in_sight(1)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise ConfigurationError(f"a handler is a function, not {function!r}")
            self._publisher.subscribe(self, function, options, local_names)  # type: ignore[arg-type]
            return function

        return declare


class Topic(_Subscribable[T]):
    """Made by `app.topic(name, type)`."""

    def __init__(
        self, options: TopicOptions, wanted: Any, *, letters: EventLetters, publisher: Publisher
    ) -> None:
        self.name: str = options.name
        self.options = options
        self.wanted = wanted
        self._letters = letters
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    async def publish(
        self,
        event: T,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        kind: str | None = None,
        source: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        schema_version: int | None = None,
    ) -> str:
        """Store one event, for every group; its id. When this returns, it will be delivered.

        The same `idempotency_key` within the topic's window is stored once: the id is then the first one's.
        """
        draft = self.message(
            event,
            key=key,
            headers=headers,
            kind=kind,
            source=source,
            delay=delay,
            at=at,
            expires=expires,
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
            schema_version=schema_version,
        )
        return await self._publisher.publish(self.options, self._letters, draft)

    async def publish_many(self, events: Iterable[T | Draft[T]]) -> list[Outcome]:
        """Store many events, a write for every few hundred; one outcome each, in order. What is wrong with
        one of them is its own outcome and spoils no other."""
        drafts = [each if isinstance(each, Draft) else Draft(each) for each in events]
        return await self._publisher.publish_many(self.options, self._letters, drafts)

    def message(
        self,
        payload: T,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        kind: str | None = None,
        source: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        schema_version: int | None = None,
    ) -> Draft[T]:
        """A payload with what is said about it, for `publish_many`."""
        return Draft(
            payload,
            key=key,
            headers=headers,
            kind=kind,
            source=source,
            delay=delay,
            at=at,
            expires=expires,
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
            schema_version=schema_version,
        )

    async def replay(self, *, group: str, since: StartAt = "beginning") -> None:
        """Have a group read history again, from an event's id, a time, or the beginning of what is kept.
        What it has in hand just now stays there and is not given to it twice; an ordered group gets it again
        in its turn, so that the newest event of each key comes last."""
        await self._publisher.replay(self.name, group, start_of(since, "since"))

    def feed(self, task: Fed[T], *, group: str | None = None, start: StartAt = "new") -> None:
        """Start a job of this task for each event, with the payload as its argument.

        The job's id is derived from the event's and remembered for an hour, so that an event which is handled
        twice starts one job. It has the event's headers, trace and correlation id as its headers.
        """

        async def feed(event: Event[T]) -> None:
            job_id = f"{event.id}:{task.name}"
            headers = handed_on(event)
            # A task that is unique has a key of its own; then the id alone is remembered, while its job is.
            fed = (
                task.with_(job_id=job_id, headers=headers)
                if task.options.unique
                else task.with_(job_id=job_id, headers=headers, unique_key=job_id, unique_until=REMEMBERED)
            )
            try:
                await fed.enqueue(event.payload)
            except QueueFull as error:
                raise Snooze(FULL) from error  # its workers will catch up: no reason to bury the event

        self.subscribe(group or f"feed:{task.name}"[:100], start=start)(feed)


class TopicPattern(_Subscribable[T]):
    """Made by `app.topics("orders.*", type)`: every topic that matches, those made later too."""

    def __init__(self, pattern: str, wanted: Any, *, publisher: Publisher) -> None:
        self.name = pattern
        self.wanted = wanted
        self._publisher = publisher

    def __repr__(self) -> str:
        return f"<TopicPattern {self.name}>"
