"""How full a store is, for gauges: asked when somebody scrapes, and not more often than every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from .labels import Bounded

#: Seconds for which an answer of the store is good enough, and that the store has to give it.
GOOD_FOR = 5.0
PATIENCE = 5.0

#: Seconds after which an answer is too old to be shown at all.
TOO_OLD = 60.0

#: The states of a job or of an event in the hands of a group, which are also the fields that count them.
STATES = ("queued", "running", "scheduled", "retrying", "dead")


class Counted(Protocol):
    """What is in a queue, or in the hands of a group."""

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


class Queue(Counted, Protocol):
    @property
    def name(self) -> str: ...


class Group(Counted, Protocol):
    @property
    def group(self) -> str: ...
    @property
    def lag(self) -> int: ...


class Topic(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def groups(self) -> Sequence[Group]: ...


class Admin(Protocol):
    """What is asked of `app.admin`."""

    def queues(self) -> Awaitable[Sequence[Queue]]: ...
    def topics(self) -> Awaitable[Sequence[Topic]]: ...
    def workers(self) -> Awaitable[Sequence[object]]: ...


class Load(msgspec.Struct):
    """A queue, a group, or several of them under one label."""

    counts: dict[str, int] = {}
    age: float = 0.0
    paused: bool = False
    lag: int = 0

    def add(self, counted: Counted, now: float, lag: int = 0) -> None:
        for state in STATES:
            self.counts[state] = self.counts.get(state, 0) + getattr(counted, state)
        if counted.oldest is not None:
            self.age = max(self.age, now - counted.oldest.timestamp())
        self.paused = self.paused or counted.paused
        self.lag += lag


class Levels(msgspec.Struct):
    """All that the store said, under bounded labels."""

    queues: dict[str, Load] = {}
    groups: dict[tuple[str, str], Load] = {}
    topics: dict[str, int] = {}
    workers: int = 0


class Gauges:
    """Keeps the last answer. `up`: whether the last question was answered; None: nothing was asked yet."""

    def __init__(
        self,
        admin: Admin,
        *,
        queue_label: Bounded,
        topic_label: Bounded,
        group_label: Bounded,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.up: bool | None = None
        self._admin = admin
        self._queue_label = queue_label
        self._topic_label = topic_label
        self._group_label = group_label
        self._now = now
        self._levels = Levels()
        self._asked_at = self._answered_at = float("-inf")

    @property
    def levels(self) -> Levels | None:
        """The last answer; None: it is too old to be true."""
        return self._levels if time.monotonic() - self._answered_at < TOO_OLD else None

    async def refresh(self) -> None:
        """Ask the store, unless it was asked a moment ago. One that is away costs the patience, no error."""
        if time.monotonic() - self._asked_at < GOOD_FOR:
            return
        self._asked_at = time.monotonic()  # before the answer: others who scrape now get the last one
        try:
            async with asyncio.timeout(PATIENCE):
                self._levels = await self._ask()
        except Exception:
            self.up = False
        else:
            self.up = True
            self._answered_at = time.monotonic()

    async def _ask(self) -> Levels:
        levels, now = Levels(), self._now()
        for queue in await self._admin.queues():
            levels.queues.setdefault(self._queue_label(queue.name), Load()).add(queue, now)
        for topic in await self._admin.topics():
            name = self._topic_label(topic.name)
            levels.topics[name] = levels.topics.get(name, 0) + topic.length
            for group in topic.groups:
                label = (name, self._group_label(group.group))
                levels.groups.setdefault(label, Load()).add(group, now, group.lag)
        levels.workers = len(await self._admin.workers())
        return levels
