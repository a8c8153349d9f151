"""Trims the topics of a worker, and announces groups that prevent trimming or have other problems."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from headrace.core.messages.message import Stream
from headrace.core.signals import GroupPassed, GroupStalled, OrderDisputed, TopicHeld
from headrace.core.topics.topic import KeptTopics
from headrace.engine.declared.subscription import Subscription
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

#: Seconds between two rounds.
KEEP_EVERY = 10.0

#: Events of a topic that are trimmed in one step of the store.
TRIM_BATCH = 1000


GroupProblem = TopicHeld | GroupPassed | OrderDisputed | GroupStalled


class TopicKeeping(Service):
    def __init__(
        self,
        backend: StreamRouter,
        subscriptions: Sequence[Subscription],
        served: ServedStreams,
        *,
        emitter: Emitter,
    ) -> None:
        self._backend = backend
        self._rules = {each.topic: each.rules for each in subscriptions}
        self._served = served
        self._announced: set[tuple[type[GroupProblem], Stream]] = set()
        super().__init__("topic keeper", self._keep, emitter=emitter)

    async def _keep(self) -> float | None:
        for topic, rules in self._rules.items():
            if rules is not None:
                await self._backend.declare_topic(Stream("topic", topic), rules)
        kept = await self._backend.keep_topics(list(self._served.groups), limit=TRIM_BATCH)
        self._announce(kept)
        return None if kept.more else KEEP_EVERY * random.uniform(0.8, 1.2)  # nosec B311 # jitter

    def _announce(self, kept: KeptTopics) -> None:
        """Announce each problem of a group once, until the problem is gone."""
        found: dict[type[GroupProblem], Iterable[Stream]] = {
            TopicHeld: kept.holding,
            GroupPassed: kept.passed,
            OrderDisputed: kept.disputed,
            GroupStalled: kept.stalled,
        }
        signals = {
            (kind, stream): kind(stream.topic, stream.group)
            for kind, streams in found.items()
            for stream in streams
        }
        for key in signals.keys() - self._announced:
            self._emitter.emit(signals[key])
        self._announced = set(signals)
