"""A topic of a store and the model beside each other: what is done to both, and the comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, Final, TypeVar

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream, group_stream
from headrace.core.messages.outcome import Done, Outcome, Settlement
from headrace.core.records.answers import Answer, DeadFilter
from headrace.core.runtime.clock import MovableClock
from headrace.core.topics.topic import BEGINNING, Start
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.stand import LEASE, Stand, dead
from headrace.testing.contract.kit.tidy import check_that_nothing_is_left
from headrace.testing.contract.under_test import StoreUnderTest

from .topic_model import QUEUED, GroupModel, ModelPlace, TopicModel

T = TypeVar("T")

GROUPS: Final = ("free", "ordered")

#: The group, the claim, and the number that the model knows it by.
HandOut = tuple[str, Claim, int]


class TopicPair:
    """Two processes use the store; one group is ordered."""

    def __init__(self, store: StoreUnderTest, clock: MovableClock) -> None:
        self._loop = asyncio.Runner()
        self._numbers = count(1)
        self.stand = Stand(store, clock)
        self.run(self.stand.open())
        self.backends = [self.stand.backend, self.run(self.stand.other())]
        self.orders = Orders(self.stand)
        self.model = TopicModel()
        self.hand_outs: list[HandOut] = []
        self.run(self.orders.declare_topic())
        for name in GROUPS:
            self.join(name, BEGINNING)

    def close(self) -> None:
        try:
            self.run(check_that_nothing_is_left(self.stand))
            self.run(self.stand.close())
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    def next_number(self) -> int:
        return next(self._numbers)

    def source(self, name: str) -> Stream:
        return group_stream("orders", name)

    @property
    def sources(self) -> list[Stream]:
        return [self.orders.source, *map(self.source, GROUPS)]

    # --- steps that several actions take -----------------------------------------------------------------

    def join(self, name: str, start: Start) -> None:
        """A group that is not there."""
        self.run(self.orders.join(name, start, ordered=name == "ordered"))
        group = self.model.groups[name] = GroupModel(ordered=name == "ordered")
        for event in self.model.since(start):
            group.owe(event)

    def publish(
        self, keys: Sequence[str] = ("a", "a", "b", ""), *, delay: int = 0, processes: Sequence[int] = (0,)
    ) -> None:
        """One batch, which each of these processes sends."""
        named = [(f"event-{self.next_number()}", key) for key in keys]
        events = [self.orders.event(id, key=key, delay=delay) for id, key in named]
        batch = self.stand.batch(*events, source=self.orders.source)
        for process in processes:
            answers = self.run(self.backends[process].append(batch))
            assert answers == [Answer(id) for id, _ in named]
        for id, key in named:
            self.model.publish(id, key, delay)

    def busy(self, name: str) -> HandOut:
        """Something that the group has in hand: the latest."""
        group = self.model.groups[name]
        if not group.ids(ModelPlace.RUNNING):
            if not group.left():
                self.publish(["c", ""])
            self.claim(name, 1, 2)
        return [each for each in self.held() if each[0] == name][-1]

    def bury(self, hand_out: HandOut) -> None:
        self.settle(hand_out, dead(hand_out[1].state), 0)

    def claim(self, name: str, process: int, limit: int) -> list[HandOut]:
        group = self.model.groups[name]
        source, consumer = self.source(name), f"worker-{process}"
        claims: list[Claim] = []
        # A claim may bring fewer than there are: only an empty one says that there are no more.
        while left := limit - len(claims):
            some = self.run(
                self.backends[process].claim([source], consumer=consumer, limit=left, suspects=left, wait=0)
            )
            assert len(some) <= left
            claims += some
            if not some:
                break
        self._check_turns(group, [claim.id for claim in claims])
        handed: list[HandOut] = [(name, claim, self.next_number()) for claim in claims]
        for _, claim, number in handed:
            group.hand_out(claim.id, number)
        if len(claims) < limit:
            assert group.left() == []
        self.hand_outs += handed
        return handed

    def _check_turns(self, group: GroupModel, ids: list[str]) -> None:
        """Events come in the order of the log, unless the group met them in another one."""
        if not group.was_reset and not group.ordered:
            fresh = set(group.ids(ModelPlace.OWED))
            numbers = [group.deliveries[id].event.number for id in ids if id in fresh]
            owed = sorted(group.deliveries[id].event.number for id in fresh)
            assert numbers == owed[: len(numbers)]

    def settle(self, hand_out: HandOut, outcome: Outcome, process: int) -> None:
        name, claim, number = hand_out
        (verdict,) = self.run(self.backends[process].settle([Settlement(claim, outcome)]))
        assert verdict == self.model.groups[name].settle(claim.id, number, outcome, self.model.now)

    def wait(self, seconds: int) -> None:
        self.run(self.stand.advance(seconds))
        self.model.now += seconds

    def promote(self) -> None:
        promoted = self.run(self.stand.promote(sources=self.sources))
        groups = self.model.groups.values()
        assert promoted.count == sum(group.promote(self.model.now) for group in groups) + self.model.promote()

    def crash(self) -> None:
        """Nobody renews: all that was held is taken away."""
        self.wait(round(LEASE) + 10)
        recovered = self.run(self.stand.reclaim(sources=self.sources[1:], limit=2))
        found = {(each.stream.group, each.id) for each in recovered}
        assert len(found) == len(recovered)
        running = {(name, id) for name in GROUPS for id in self.model.groups[name].ids(ModelPlace.RUNNING)}
        assert found == running
        for name, id in found:
            self.model.groups[name].recover(id)

    def finish(self) -> None:
        """Handle everything until nothing is left but dead letters."""
        self.crash()
        while self.model.scheduled or any(
            group.ids(ModelPlace.WAITING) for group in self.model.groups.values()
        ):
            self.wait(100)
            self.promote()
        for name in GROUPS:
            while handed := self.claim(name, 0, 100):
                for hand_out in handed:
                    self.settle(hand_out, Done(), 1)

    # --- comparison --------------------------------------------------------------------------------------

    def held(self) -> list[HandOut]:
        return [each for each in self.hand_outs if self._holds(each)]

    def lost(self) -> list[HandOut]:
        return [each for each in self.hand_outs if not self._holds(each)][-4:]

    def _holds(self, hand_out: HandOut) -> bool:
        name, claim, number = hand_out
        return self.model.groups[name].holds(claim.id, number)

    def compare_log(self) -> None:
        model = self.model
        record = self.run(self.orders.record())
        assert (record.last, record.scheduled) == (len(model.events), len(model.scheduled))
        assert model.first <= record.first <= model.may_go() + 1
        model.first = record.first
        entries = self.run(self.orders.read(0, limit=10_000)).entries
        found = [(entry.number, entry.id, entry.key) for entry in entries]
        assert found == [(event.number, event.id, event.key) for event in model.there()]

    def compare_groups(self) -> None:
        for name, group in self.model.groups.items():
            stream = self.source(name)
            counts = self.run(self.backends[1].counts(stream))
            assert counts.running == len(group.ids(ModelPlace.RUNNING))
            assert counts.scheduled + counts.retrying == len(group.ids(ModelPlace.WAITING))
            queued = len(group.ids(*QUEUED))
            # After a reset what is passed over later is counted until then.
            assert counts.queued >= queued if group.was_reset else counts.queued == queued
            letters = self.run(self.backends[0].dead_letters(stream, only=DeadFilter()))
            assert {letter.id for letter in letters} == set(group.ids(ModelPlace.DEAD))

    def check_that_nothing_was_lost(self) -> None:
        """Whatever happened: in the end every group has had everything, and the log can be trimmed."""
        self.finish()
        for name, group in self.model.groups.items():
            assert set(group.ids(*ModelPlace)) == set(group.ids(ModelPlace.DEAD, ModelPlace.OPEN))
            counts = self.run(self.backends[0].counts(self.source(name)))
            assert (counts.queued, counts.running, counts.scheduled, counts.retrying) == (0, 0, 0, 0)
        tended = self.run(self.orders.keep_topics(*self.sources[1:]))
        assert (tended.holding, tended.passed, tended.more) == ((), (), False)
        self.compare_log()
        assert self.model.first == self.model.may_go() + 1
