"""A topic of a store and the model of its groups beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream, group_stream
from headrace.core.messages.outcome import Done
from headrace.core.records.answers import Answer, DeadFilter
from headrace.core.runtime.clock import MovableClock
from headrace.core.topics.topic import BEGINNING, Start
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.machines.model import LEASE_SECONDS
from headrace.testing.contract.machines.pair import HandOut, Pair
from headrace.testing.contract.under_test import StoreUnderTest

from .model import QUEUED, GroupModel, ModelPlace, TopicModel

FREE: Final = group_stream(Orders.stream.name, "free")
ORDERED: Final = group_stream(Orders.stream.name, "ordered")
GROUPS: Final = (FREE, ORDERED)


class TopicPair(Pair):
    """A topic with two groups, one of them ordered."""

    def __init__(self, store: StoreUnderTest, clock: MovableClock) -> None:
        super().__init__(store, clock)
        self.orders = Orders(self.stand)
        self.model = TopicModel(self.clock)
        self.run(self.orders.declare_topic())
        for group in GROUPS:
            self.join(group, BEGINNING)

    @property
    def streams(self) -> dict[Stream, GroupModel]:
        return self.model.groups

    def fill(self, stream: Stream) -> None:
        if not self.model.groups[stream].left():
            self.publish()

    def claim(self, stream: Stream, process: int, limit: int, suspects: int) -> list[HandOut]:
        """`suspects` are as many as the limit, so that nothing that is left could have been claimed."""
        worker, group = f"worker-{process}", self.model.groups[stream]
        claims: list[Claim] = []
        # A claim may bring fewer than there are: only an empty one says that there are no more.
        while left := limit - len(claims):
            some = self.run(
                self.backends[process].claim([stream], consumer=worker, limit=left, suspects=suspects, wait=0)
            )
            assert len(some) <= left
            claims += some
            if not some:
                break
        self._check_turns(group, [claim.id for claim in claims])
        handed = self.hand_out(stream, claims, worker)
        if len(claims) < limit:
            assert group.left() == []
        return handed

    def _check_turns(self, group: GroupModel, ids: list[str]) -> None:
        """Events come in the order of the log, unless the group met them in another one."""
        if not group.was_reset and not group.ordered:
            fresh = set(group.ids_in(ModelPlace.OWED))
            numbers = [group.messages[id].event.number for id in ids if id in fresh]
            owed = sorted(group.messages[id].event.number for id in fresh)
            assert numbers == owed[: len(numbers)]

    def promote(self, process: int, limit: int) -> None:
        """`limit` is more than can be due."""
        sources = [self.orders.source, *GROUPS]
        promoted = self.run(self.backends[process].promote(sources, limit=limit))
        groups = self.model.groups.values()
        assert promoted.count == sum(group.promote() for group in groups) + self.model.promote()

    # --- steps that several actions take -----------------------------------------------------------------

    def join(self, group: Stream, start: Start) -> None:
        """A group that is not there."""
        ordered = group == ORDERED
        self.run(self.orders.join(group.group, start, ordered=ordered))
        model = self.model.groups[group] = GroupModel(self.clock, ordered=ordered)
        for event in self.model.since(start):
            model.owe(event)

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

    # --- comparison --------------------------------------------------------------------------------------

    def compare(self) -> None:
        self.compare_log()
        self._compare_groups()

    def compare_log(self) -> None:
        model = self.model
        record = self.run(self.orders.record())
        assert (record.last, record.scheduled) == (len(model.events), len(model.scheduled))
        assert model.first <= record.first <= model.may_go() + 1
        model.first = record.first
        entries = self.run(self.orders.read(0, limit=10_000)).entries
        found = [(entry.number, entry.id, entry.key) for entry in entries]
        assert found == [(event.number, event.id, event.key) for event in model.there()]

    def _compare_groups(self) -> None:
        for stream, group in self.model.groups.items():
            counts = self.run(self.backends[1].counts(stream))
            assert counts.running == len(group.ids_in(ModelPlace.RUNNING))
            assert counts.scheduled + counts.retrying == len(group.ids_in(ModelPlace.WAITING))
            queued = len(group.ids_in(*QUEUED))
            # After a reset what is passed over later is counted until then.
            assert counts.queued >= queued if group.was_reset else counts.queued == queued
            letters = self.run(self.backends[0].dead_letters(stream, only=DeadFilter()))
            assert {letter.id for letter in letters} == set(group.ids_in(ModelPlace.DEAD))

    # --- the end -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """In the end every group has had everything, and the log can be trimmed."""
        self._handle_everything()
        for stream, group in self.model.groups.items():
            assert set(group.ids_in(*ModelPlace)) == set(group.ids_in(ModelPlace.DEAD, ModelPlace.OPEN))
            counts = self.run(self.backends[0].counts(stream))
            assert (counts.queued, counts.running, counts.scheduled, counts.retrying) == (0, 0, 0, 0)
        tended = self.run(self.orders.keep_topics(*GROUPS))
        assert (tended.holding, tended.passed, tended.more) == ((), (), False)
        self.compare_log()
        assert self.model.first == self.model.may_go() + 1

    def _handle_everything(self) -> None:
        """Only dead letters stay."""
        self.wait(LEASE_SECONDS + 10)
        self.reclaim()
        while self.model.scheduled or any(
            group.ids_in(ModelPlace.WAITING) for group in self.model.groups.values()
        ):
            self.wait(100)
            self.promote(0, limit=100)
        for group in GROUPS:
            while handed := self.claim(group, 0, limit=100, suspects=100):
                for hand_out in handed:
                    self.settle(hand_out, Done(), 1)
