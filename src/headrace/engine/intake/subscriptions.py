"""Joins the groups of a worker's subscriptions, makes their readers, and finds topics that are made later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TypeVar

from headrace.core.errors import RequestRefused
from headrace.core.messages.message import Stream
from headrace.core.signals import BackendError
from headrace.core.topics.topic import BEGINNING, Start
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription
from headrace.engine.service import Service

from .fan_out import FanOutReader
from .group_reader import EventParts, GroupReader
from .queue_reader import ReaderParts
from .served_streams import ServedStreams
from .subscription_limit import SubscriptionLimit
from .worker_readers import WorkerReaders

T = TypeVar("T")

#: Seconds between two searches for topics that match a pattern.
DISCOVER_EVERY = 1.0


class Subscriptions:
    """One reader for each group, and for each topic of a fan-out."""

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        *,
        worker: str,
        registry: Registry,
        served: ServedStreams,
        readers: WorkerReaders,
        parts: ReaderParts,
        events: EventParts,
    ) -> None:
        self._subscriptions = subscriptions
        self._worker = worker
        self._registry = registry
        self._served = served
        self._readers = readers
        self._parts = parts
        self._events = events
        self._backend = parts.backend
        self._has_patterns = any(each.is_pattern for each in subscriptions)
        self._reading = False
        self._discovering = asyncio.Lock()
        self._numbers = count(1)
        self._joined: set[Stream] = set()
        #: Topics whose keys are damaged: where they are to be read from, and what the store said.
        self._refused: dict[tuple[Subscription, str], tuple[Start, RequestRefused]] = {}
        self._limits = {each: SubscriptionLimit(each.max_in_flight) for each in subscriptions}
        self._groups: dict[Subscription, GroupReader] = {}
        self.fan_outs: list[FanOutReader] = []
        self._discovery = Service("topic discovery", self._discover, emitter=parts.emitter)

    async def join(self) -> None:
        """Join the groups, and find the start positions. Reads nothing yet."""
        for subscription in self._subscriptions:
            if not subscription.fan_out:
                self._groups[subscription] = reader = self._group_reader(subscription)
                self._readers.add(reader, [])
        streams = await self._streams()
        for subscription in self._subscriptions:
            start = BEGINNING if self._is_known(subscription, streams) else subscription.start
            for topic in _topics_of(subscription, streams):
                await self._attempt(subscription, topic, start)
        for (_, topic), (_, error) in self._refused.items():
            if not self._joined and not self._served.queues:
                raise error  # this worker has nothing else to do
            self._parts.emitter.emit(
                BackendError(self._discovery.name, f"topic {topic}: {error}", DISCOVER_EVERY)
            )

    def start(self) -> None:
        """Read from now on."""
        self._reading = True
        for reader in (*self._groups.values(), *self.fan_outs):
            reader.start()
        if self._has_patterns or self._refused:
            self._discovery.start()

    async def stop(self) -> None:
        """Read no more."""
        self._reading = False
        await self._discovery.stop()
        await asyncio.gather(*(reader.stop() for reader in (*self._groups.values(), *self.fan_outs)))

    async def have_nothing(self) -> bool:
        """Whether nothing waits that the store does not count: events that only this process has, or topics
        that are not known yet."""
        joined = len(self._joined)
        if self._caught_up and self._has_patterns:
            await self._discover()
        return self._caught_up and joined == len(self._joined)

    @property
    def _caught_up(self) -> bool:
        return all(reader.caught_up for reader in self._readers)

    def _group_reader(self, subscription: Subscription) -> GroupReader:
        return GroupReader(
            self._parts,
            subscription,
            consumer=self._consumer(),
            limit=self._limits[subscription],
            events=self._events,
        )

    def _consumer(self) -> str:
        return f"{self._worker}+{next(self._numbers)}"

    async def _streams(self) -> list[Stream]:
        """All streams of the store, if a subscription has a pattern."""
        return await with_retries(self._backend.streams) if self._has_patterns else []

    def _is_known(self, subscription: Subscription, streams: Sequence[Stream]) -> bool:
        """Whether a group of this pattern exists already. Then topics that it has not joined were made
        later."""
        return subscription.is_pattern and any(
            each.kind == "group" and self._registry.subscribed(each) is subscription for each in streams
        )

    async def _attempt(self, subscription: Subscription, topic: str, start: Start) -> None:
        """Serve a topic. One whose keys are damaged keeps the worker from no other: it is tried again."""
        try:
            await self._serve(subscription, topic, start)
        except RequestRefused as error:
            self._refused[subscription, topic] = start, error
        else:
            self._refused.pop((subscription, topic), None)

    async def _serve(self, subscription: Subscription, topic: str, start: Start) -> None:
        stream = subscription.stream(topic)
        if stream in self._joined:
            return
        rules = subscription.rules
        if rules is not None:
            await self._ask(lambda: self._backend.declare_topic(Stream("topic", topic), rules))
        if subscription.fan_out:
            await self._begin_fan_out(subscription, topic, start)
        else:
            await self._join(subscription, stream, start)
        self._joined.add(stream)
        self._served.add_topic(Stream("topic", topic))

    async def _join(self, subscription: Subscription, stream: Stream, start: Start) -> None:
        await self._ask(lambda: self._backend.join(stream, start, ordered=subscription.ordered))
        await self._parts.leases.add(stream, self._backend, self._parts.emitter)
        self._served.add_group(stream)
        reader = self._groups[subscription]
        self._readers.add(reader, [stream])
        reader.add(stream)

    async def _begin_fan_out(self, subscription: Subscription, topic: str, start: Start) -> None:
        reader = FanOutReader(
            self._parts,
            subscription,
            topic,
            start,
            consumer=self._consumer(),
            limit=self._limits[subscription],
            events=self._events,
        )
        await self._ask(reader.find_place)
        self.fan_outs.append(reader)
        self._readers.add(reader, [reader.stream])
        if self._reading:
            reader.start()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Send a request, with retries while the worker starts. Later the services repeat it themselves."""
        return await (ask() if self._reading else with_retries(ask))

    async def _discover(self) -> float | None:
        async with self._discovering:
            for (subscription, topic), (start, _) in list(self._refused.items()):
                await self._attempt(subscription, topic, start)
            streams = await self._backend.streams() if self._has_patterns else []
            for subscription in self._subscriptions:
                if subscription.is_pattern:
                    for topic in _topics_of(subscription, streams):
                        if (subscription, topic) not in self._refused:
                            await self._attempt(subscription, topic, BEGINNING)
        for _, error in self._refused.values():
            raise error
        return DISCOVER_EVERY * random.uniform(0.8, 1.2)  # nosec B311 # jitter


def _topics_of(subscription: Subscription, streams: Sequence[Stream]) -> list[str]:
    if not subscription.is_pattern:
        return [subscription.topic]
    return sorted(each.name for each in streams if each.kind == "topic" and subscription.matches(each.name))
