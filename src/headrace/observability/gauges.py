"""The counts in a store, for gauges. A scrape asks for them, at most every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

#: Seconds for which an answer of the store is good enough, and seconds that the store has to give it.
GOOD_FOR = 5.0
TIMEOUT = 5.0

#: Seconds after which an answer is too old to be shown at all.
TOO_OLD = 60.0

#: Values of one label: each is a time series, and Prometheus has room for few.
MOST = 100

#: The value for all others.
OTHER = "other"

#: The states of a job or of an event of a group. The fields that count them have the same names.
STATES = ("queued", "running", "scheduled", "retrying", "dead")


class BoundedLabel:
    """The first `most` values stay as they are. All later values become `other`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) < self._most:
            self._known.add(value)
            return value
        return OTHER


class StateCounts(Protocol):
    """The counts of a queue or a group."""

    @property
    def queued(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def scheduled(self) -> int: ...
    @property
    def retrying(self) -> int: ...
    @property
    def dead(self) -> int: ...
    @property
    def paused(self) -> bool: ...
    @property
    def oldest(self) -> datetime | None: ...


class QueueCounts(StateCounts, Protocol):
    @property
    def name(self) -> str: ...


class GroupCounts(StateCounts, Protocol):
    @property
    def group(self) -> str: ...
    @property
    def lag(self) -> int: ...


class TopicCounts(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def groups(self) -> Sequence[GroupCounts]: ...


class OutboxCounts(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def waiting(self) -> int: ...
    @property
    def lag(self) -> float: ...


class CountsSource(Protocol):
    """The part of `app.admin` that gauges need."""

    def queues(self) -> Awaitable[Sequence[QueueCounts]]: ...
    def topics(self) -> Awaitable[Sequence[TopicCounts]]: ...
    def workers(self) -> Awaitable[Sequence[object]]: ...
    def outboxes(self) -> Awaitable[Sequence[OutboxCounts]]: ...


class LabelCounts(msgspec.Struct):
    """A queue, a group, or several of them under one label."""

    counts: dict[str, int] = {}
    age: float = 0.0
    paused: bool = False
    lag: int = 0

    def add(self, counted: StateCounts, now: float, lag: int = 0) -> None:
        for state in STATES:
            self.counts[state] = self.counts.get(state, 0) + getattr(counted, state)
        if counted.oldest is not None:
            self.age = max(self.age, now - counted.oldest.timestamp())
        self.paused = self.paused or counted.paused
        self.lag += lag


class StoreCounts(msgspec.Struct):
    """All counts of a store, under bounded labels."""

    queues: dict[str, LabelCounts] = {}
    groups: dict[tuple[str, str], LabelCounts] = {}
    topics: dict[str, int] = {}
    workers: int = 0
    outboxes: dict[str, tuple[int, float]] = {}  # how many messages wait, and the first for how many seconds


class Gauges:
    """Keeps the last answer of the store. `up`: whether the store answered last time; None: not asked yet."""

    def __init__(
        self,
        admin: CountsSource,
        *,
        queue_label: BoundedLabel,
        topic_label: BoundedLabel,
        group_label: BoundedLabel,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.up: bool | None = None
        self._admin = admin
        self._queue_label = queue_label
        self._topic_label = topic_label
        self._group_label = group_label
        self._outbox_label = BoundedLabel()
        self._now = now
        self._counts = StoreCounts()
        self._asked_at = self._answered_at = float("-inf")

    @property
    def counts(self) -> StoreCounts | None:
        """The last answer. None: it is too old."""
        return self._counts if time.monotonic() - self._answered_at < TOO_OLD else None

    async def refresh(self) -> None:
        """Ask the store, unless the last answer is fresh. A store that is unavailable is no error here."""
        if time.monotonic() - self._asked_at < GOOD_FOR:
            return
        self._asked_at = time.monotonic()  # before the answer: other scrapes get the last one until then
        try:
            async with asyncio.timeout(TIMEOUT):
                self._counts = await self._ask()
        except Exception:
            self.up = False
        else:
            self.up = True
            self._answered_at = time.monotonic()

    async def _ask(self) -> StoreCounts:
        counts, now = StoreCounts(), self._now()
        for queue in await self._admin.queues():
            counts.queues.setdefault(self._queue_label(queue.name), LabelCounts()).add(queue, now)
        for topic in await self._admin.topics():
            name = self._topic_label(topic.name)
            counts.topics[name] = counts.topics.get(name, 0) + topic.length
            for group in topic.groups:
                label = (name, self._group_label(group.group))
                counts.groups.setdefault(label, LabelCounts()).add(group, now, group.lag)
        counts.workers = len(await self._admin.workers())
        for outbox in await self._admin.outboxes():
            named = self._outbox_label(outbox.name)
            waiting, lag = counts.outboxes.get(named, (0, 0.0))
            counts.outboxes[named] = waiting + outbox.waiting, max(lag, outbox.lag)
        return counts
