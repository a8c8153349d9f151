"""The subscriptions of a worker: who reads for each, and what becomes of their events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec

from headrace.core.claim import Claim
from headrace.core.message import Source, Stream
from headrace.core.outcome import Done, Retry, Snoozed
from headrace.core.signals import GroupPassed, GroupStalled, OrderDisputed, TopicHeld
from headrace.core.topics import BEGINNING, Start, Tended

from .announcer import Announcer
from .bundle import bundled
from .desk import Desk, left_open
from .emitter import Emitter
from .fan_out import FanOut
from .finished import Finished
from .group_fetcher import GroupFetcher
from .holdings import Holdings
from .leases import Leases
from .permits import Permits
from .registry import Registry
from .retrying import with_retries
from .run import Run
from .service import Service
from .shares import Shares
from .slots import Slots
from .streams import StreamRouter
from .subscription import Subscription

T = TypeVar("T")

#: Seconds between two rounds of trimming topics, and of looking for topics that match a pattern.
TEND_EVERY = 5.0
DISCOVER_EVERY = 1.0

#: Events of a topic that are trimmed in one step of the store.
TRIM_BATCH = 1000


class Subscribers:
    """One reader for each subscription. `sources` and `due` are the worker's own lists, and grow with topics
    that are found later."""

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        *,
        worker: str,
        backend: StreamRouter,
        registry: Registry,
        slots: Slots,
        running: Mapping[Claim, Run],
        holdings: Holdings,
        unwritten: Callable[[], int],
        desk: Desk,
        announcer: Announcer,
        emitter: Emitter,
        leases: Leases,
        sources: list[Source],
        due: list[Source],
        hand_back: Callable[[list[Claim]], None],
        refuse: Callable[[Claim], bool],
        with_jobs: bool,
    ) -> None:
        self.subscriptions = subscriptions
        self.readers: list[GroupFetcher | FanOut] = []
        self._worker = worker
        self._backend = backend
        self._registry = registry
        self._slots = slots
        self._holdings = holdings
        self._unwritten = unwritten
        self._desk = desk
        self._announcer = announcer
        self._emitter = emitter
        self._leases = leases
        self._sources = sources
        self._due = due
        self._hand_back = hand_back
        self._refuse = refuse
        self._shares = Shares(
            slots,
            running,
            registry=registry,
            subscriptions=subscriptions,
            with_jobs=with_jobs,
            room_made=self.room_made,
        )
        self._has_patterns = any(each.is_pattern for each in subscriptions)
        self._reading = False
        self._discovering = asyncio.Lock()
        self.handled = 0  # events that were brought to an end without a word to the store
        self._numbers = count(1)
        self._groups: list[Stream] = []
        self._served: set[Stream] = set()
        self._permits = {each: Permits(each.max_in_flight) for each in subscriptions}
        self._fetchers: dict[Subscription, GroupFetcher] = {}
        self._told: set[tuple[type, Stream]] = set()
        self._again: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self._tender = Service("tender", self._tend, emitter=emitter)
        self._discoverer = Service("discoverer", self._discover, emitter=emitter)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that are served, as a worker announces them."""
        return tuple(stream.name for stream in self._groups)

    @property
    def polled_at(self) -> float:
        """When one of them last got an answer, in seconds since 1970."""
        return max((reader.polled_at for reader in self.readers), default=0.0)

    async def join(self) -> None:
        """Join the groups, and find the places to begin at; nothing is read yet."""
        for subscription in self.subscriptions:
            if not subscription.fan_out:
                self._fetchers[subscription] = fetcher = self._fetcher(subscription)
                self.readers.append(fetcher)
        streams = await self._streams()
        for subscription in self.subscriptions:
            start = BEGINNING if self._is_known(subscription, streams) else subscription.start
            for topic in _topics_of(subscription, streams):
                await self._serve(subscription, topic, start)

    def start(self) -> None:
        """Read from now on."""
        self._reading = True
        for reader in self.readers:
            reader.start()
        if self._fetchers:
            self._tender.start()
        if self._has_patterns:
            self._discoverer.start()

    async def stop_reading(self) -> list[Claim]:
        """Read no more; gives the claims that are still to be settled before they may be handled."""
        self._reading = False
        await self._discoverer.stop()
        for handle in self._again:
            handle.cancel()
        self._again.clear()
        await asyncio.gather(*(reader.stop() for reader in self.readers))
        return [claim for fetcher in self._fetchers.values() for claim in fetcher.unacknowledged]

    async def stop(self) -> None:
        await self._tender.stop()

    async def have_nothing(self) -> bool:
        """Whether nothing waits that the store does not count: in this process alone, or in topics that are
        not known yet."""
        served = len(self._served)
        if self._idle and self._has_patterns:
            await self._discover()
        return self._idle and served == len(self._served)

    @property
    def _idle(self) -> bool:
        """Whether nothing waits in this process alone: to be read for it, or to be tried again by it."""
        return self.at_rest and all(reader.caught_up for reader in self.readers if isinstance(reader, FanOut))

    @property
    def at_rest(self) -> bool:
        """Whether what was read for this process alone is over with."""
        fan_outs = (permits for each, permits in self._permits.items() if each.fan_out)
        return all(permits.idle for permits in fan_outs)

    def hasten(self) -> None:
        """Try again now what was to be tried later, in this process alone."""
        for handle, put in list(self._again.items()):
            handle.cancel()
            put()

    @property
    def group_readers(self) -> dict[str, list[Stream]]:
        """The names under which groups are claimed from, each with its streams."""
        readers: dict[str, list[Stream]] = {fetcher.consumer: [] for fetcher in self._fetchers.values()}
        for stream in self._groups:
            subscription = self._registry.subscribed(stream)
            if subscription in self._fetchers:
                readers[self._fetchers[subscription].consumer].append(stream)
        return readers

    def wake(self) -> None:
        """Have those look again that wait for events."""
        for fetcher in self._fetchers.values():
            self._backend.wake(fetcher.consumer)

    def room_made(self) -> None:
        for reader in self.readers:
            if reader.hungry:
                reader.room_made()

    def may_be_handed_back(self, claim: Claim) -> bool:
        """Not what was acknowledged on receipt: nobody else would get it."""
        subscription = self._registry.serving(claim)
        return subscription is None or subscription.ack != "receipt"

    def concluded(self, finished: Finished) -> bool:
        """A slot is done with an event; whether it is to be settled now."""
        claim = finished.claim
        subscription = self._registry.serving(claim)
        if subscription is None:
            return True
        if not subscription.held and claim not in self._holdings:
            self._conclude_unheld(subscription, finished)
            return False
        if self._desk.took(claim):
            self._announcer.failed(finished)  # what a handler raises after it has settled is only told
            if not self._desk.awaits(claim):
                self._let_go(subscription)
            return False
        if subscription.ack == "manual" and left_open(finished):
            self._announcer.left_open(finished)
            self._holdings.drop(claim)
            self._let_go(subscription)
            return False
        return True

    def written(self, finished: Finished) -> None:
        """The store has answered to a settlement, of an event or of a job."""
        claim = finished.claim
        ended = self._desk.written(claim)
        subscription = self._registry.serving(claim)
        if subscription is not None and ended and not finished.late:
            self._permits[subscription].give_back()

    def lost(self, claim: Claim) -> None:
        """The lease of a job or an event is gone before anybody began to handle it."""
        self._holdings.drop(claim)
        subscription = self._registry.serving(claim)
        if subscription is not None:
            self._let_go(subscription)

    def _let_go(self, subscription: Subscription) -> None:
        self._permits[subscription].give_back()
        self.room_made()

    def _conclude_unheld(self, subscription: Subscription, finished: Finished) -> None:
        """Nobody else has it: what is to be tried again is tried here, as long as this process lives."""
        self._announcer.failed(finished)
        if subscription.fan_out:
            self._announcer.ended(finished)
            if isinstance(finished.outcome, Retry | Snoozed) and self._reading:
                claim = msgspec.structs.replace(finished.claim, state=finished.outcome.state)
                self._later(finished.outcome.delay_us / 1e6, claim, subscription.batch)
                return
        elif isinstance(finished.outcome, Done):
            self._announcer.ended(finished)
        self.handled += 1
        self._let_go(subscription)

    def _later(self, delay: float, claim: Claim, batch: int | None) -> None:
        def put() -> None:
            self._again.pop(handle, None)
            self._slots.put(bundled([claim], batch) if batch else [claim])

        handle = asyncio.get_running_loop().call_later(delay, put)
        self._again[handle] = put

    # --- topics ------------------------------------------------------------------------------------------

    def _fetcher(self, subscription: Subscription) -> GroupFetcher:
        return GroupFetcher(
            subscription,
            self._permits[subscription],
            backend=self._backend,
            sources=[],
            shares=self._shares,
            refuse=self._refuse,
            too_many=self._hand_back,
            consumer=self._consumer(),
            slots=self._slots,
            holdings=self._holdings,
            unwritten=self._unwritten,
            emitter=self._emitter,
            lease=lambda: self._leases.shortest,
        )

    def _consumer(self) -> str:
        return f"{self._worker}+{next(self._numbers)}"

    async def _streams(self) -> list[Stream]:
        """What there is, as far as a pattern could be interested."""
        return await with_retries(self._backend.streams) if self._has_patterns else []

    def _is_known(self, subscription: Subscription, streams: Sequence[Stream]) -> bool:
        """Whether it is a pattern that somebody followed before: what it has not met yet was made later."""
        return subscription.is_pattern and any(
            each.kind == "group" and self._registry.subscribed(each) is subscription for each in streams
        )

    async def _serve(self, subscription: Subscription, topic: str, start: Start) -> None:
        stream = subscription.stream(topic)
        if stream in self._served:
            return
        rules = subscription.rules
        if rules is not None:
            await self._ask(lambda: self._backend.arrange(Stream("topic", topic), rules))
        if subscription.fan_out:
            await self._begin_fan_out(subscription, topic, start)
        else:
            await self._join(subscription, stream, start)
        self._served.add(stream)
        due = Source(Stream("topic", topic))
        if due not in self._due:
            self._due.append(due)

    async def _join(self, subscription: Subscription, stream: Stream, start: Start) -> None:
        await self._ask(lambda: self._backend.join(stream, start, ordered=subscription.ordered))
        source = Source(stream)
        await self._leases.add(source, self._backend, self._emitter)
        self._sources.append(source)
        self._groups.append(stream)
        fetcher = self._fetchers[subscription]
        fetcher.add(source)

    async def _begin_fan_out(self, subscription: Subscription, topic: str, start: Start) -> None:
        reader = FanOut(
            subscription,
            topic,
            start,
            backend=self._backend,
            permits=self._permits[subscription],
            shares=self._shares,
            consumer=self._consumer(),
            slots=self._slots,
            emitter=self._emitter,
        )
        await self._ask(reader.find_place)
        self.readers.append(reader)
        if self._reading:
            reader.start()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """When a worker starts the store is asked with retries; later the services ask again by
        themselves."""
        return await (ask() if self._reading else with_retries(ask))

    async def _discover(self) -> float | None:
        async with self._discovering:
            streams = await self._backend.streams()
            for subscription in self.subscriptions:
                if subscription.is_pattern:
                    for topic in _topics_of(subscription, streams):
                        await self._serve(subscription, topic, BEGINNING)
        return DISCOVER_EVERY * random.uniform(0.8, 1.2)

    async def _tend(self) -> float | None:
        for topic, rules in {each.topic: each.rules for each in self.subscriptions}.items():
            if rules is not None:
                await self._backend.arrange(Stream("topic", topic), rules)
        tended = await self._backend.tend(list(self._groups), limit=TRIM_BATCH)
        self._tell(tended)
        return None if tended.more else TEND_EVERY * random.uniform(0.8, 1.2)

    def _tell(self, tended: Tended) -> None:
        """Once for each group, until it is otherwise."""
        signals: dict[tuple[type, Stream], Any] = {}
        said = {
            TopicHeld: tended.holding,
            GroupPassed: tended.passed,
            OrderDisputed: tended.disputed,
            GroupStalled: tended.stalled,
        }
        for kind, streams in said.items():
            signals |= {(kind, stream): kind(stream.topic, stream.group) for stream in streams}
        for key in signals.keys() - self._told:
            self._emitter.emit(signals[key])
        self._told = set(signals)


def _topics_of(subscription: Subscription, streams: Sequence[Stream]) -> list[str]:
    if not subscription.is_pattern:
        return [subscription.topic]
    return sorted(each.name for each in streams if each.kind == "topic" and subscription.matches(each.name))
