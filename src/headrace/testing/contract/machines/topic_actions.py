"""What may be done to a topic and its groups, and how often. See `actions.py` for the manner of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from hypothesis import strategies as st

from headrace.core.messages.message import State, TrailEntry
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from headrace.core.runtime.clock import microseconds
from headrace.core.topics.topic import BEGINNING, NEW, Start
from headrace.testing.contract.kit.stand import FAILURE

from .topic_model import ModelPlace
from .topic_pair import GROUPS, TopicPair

T = TypeVar("T")

TROUBLE = TrailEntry(1, "failed", "worker", "no such row")


class TopicAction(Protocol):
    def play(self, pair: TopicPair) -> None: ...


@dataclass(frozen=True)
class Publish:
    """With `again` the batch is sent twice: its answer was lost."""

    process: int
    keys: list[str]
    delay: int
    again: bool

    def play(self, pair: TopicPair) -> None:
        # Of one batch only one may be due later: the order of several would be open.
        keys = self.keys[:1] if self.delay else self.keys
        processes = (self.process, 1 - self.process)[: 1 + self.again]
        pair.publish(keys, delay=self.delay, processes=processes)


@dataclass(frozen=True)
class ClaimEvents:
    group: str
    process: int
    limit: int

    def play(self, pair: TopicPair) -> None:
        if not pair.model.groups[self.group].left():
            pair.publish()
        pair.claim(self.group, self.process, self.limit)


@dataclass(frozen=True)
class SettleEvents:
    """What is held, or with `late` what once was."""

    process: int
    choice: int
    late: bool
    outcome: Literal["done", "retry", "snoozed", "released", "dead", "cancelled", "expired"]
    seconds: int = 0

    def play(self, pair: TopicPair) -> None:
        if not self.late and not pair.held():
            pair.busy(_chosen(list(GROUPS), self.choice))
        hand_outs = pair.lost() if self.late else pair.held()
        if hand_outs:
            hand_out = _chosen(hand_outs, self.choice)
            pair.settle(hand_out, self._outcome(hand_out[1].state), self.process)

    def _outcome(self, state: State) -> Outcome:
        delay_us = microseconds(self.seconds)
        match self.outcome:
            case "done":
                return Done()
            case "retry":
                return Retry(state.failed(TROUBLE), delay_us)
            case "snoozed":
                return Snoozed(state.snoozed(TROUBLE), delay_us)
            case "released":
                return Released(state.released(), delay_us)
            case "dead":
                return Dead(state.failed(TROUBLE), DeadReason.EXHAUSTED, FAILURE)
            case "cancelled":
                return Cancelled(0)
            case "expired":
                return Expired(0)


@dataclass(frozen=True)
class Crash:
    group: str

    def play(self, pair: TopicPair) -> None:
        pair.busy(self.group)
        pair.crash()


@dataclass(frozen=True)
class PromoteEvents:
    after: int

    def play(self, pair: TopicPair) -> None:
        pair.wait(self.after)
        pair.promote()


@dataclass(frozen=True)
class Tend:
    limit: int

    def play(self, pair: TopicPair) -> None:
        sources = map(pair.source, GROUPS)
        pair.run(pair.orders.keep_topics(*sources, limit=self.limit))


@dataclass(frozen=True)
class Arrange:
    """Bounds by age lie between two multiples of ten seconds."""

    max_length: int | None
    max_age: int | None

    def play(self, pair: TopicPair) -> None:
        pair.run(pair.orders.declare_topic(retention=self.max_age or 0, max_length=self.max_length))
        pair.model.max_length, pair.model.max_age = self.max_length, self.max_age


@dataclass(frozen=True)
class JoinAgain:
    """A group that is there keeps its position, wherever it is to begin."""

    group: str
    process: int

    def play(self, pair: TopicPair) -> None:
        stream = pair.source(self.group)
        joining = pair.backends[self.process].join(stream, NEW, ordered=self.group == "ordered")
        assert pair.run(joining) is False


@dataclass(frozen=True)
class Reset:
    """All that it has in hand is met again by the claim that follows."""

    group: str
    choice: int

    def play(self, pair: TopicPair) -> None:
        pair.busy(self.group)
        pair.compare_log()
        start = _start(pair, self.choice)
        assert pair.run(pair.backends[0].reset(pair.source(self.group), start))
        pair.model.groups[self.group].reset(pair.model.since(start))
        pair.claim(self.group, 1, 50)


@dataclass(frozen=True)
class Rejoin:
    """The group is removed and made anew."""

    group: str
    choice: int

    def play(self, pair: TopicPair) -> None:
        pair.busy(self.group)
        pair.compare_log()
        stream = pair.source(self.group)
        assert pair.run(pair.backends[1].remove_stream(stream))
        assert pair.run(pair.orders.claim(pair.source(self.group))) == []
        pair.join(self.group, _start(pair, self.choice))


@dataclass(frozen=True)
class ReplayEvents:
    group: str
    process: int
    choice: int

    def play(self, pair: TopicPair) -> None:
        group, stream = pair.model.groups[self.group], pair.source(self.group)
        if not group.ids(ModelPlace.DEAD):
            pair.bury(pair.busy(self.group))
        ids = [_chosen(["nobody", *group.ids(ModelPlace.DEAD)], self.choice), "nobody either"]
        answers = pair.run(pair.backends[self.process].replay(stream, ids))
        assert answers == [group.replay(id) for id in ids]


@dataclass(frozen=True)
class DiscardEvents:
    group: str
    choice: int

    def play(self, pair: TopicPair) -> None:
        group, stream = pair.model.groups[self.group], pair.source(self.group)
        id = _chosen(["nobody", *group.ids(ModelPlace.DEAD)], self.choice)
        assert pair.run(pair.backends[0].discard(stream, [id])) == group.discard(id)


def _start(pair: TopicPair, choice: int) -> Start:
    starts = [NEW, *[Start("event", event=event.id) for event in pair.model.there()][-3:], BEGINNING]
    return _chosen(starts, choice)


def _chosen(rows: list[T], choice: int) -> T:
    """Counted from the end: the smallest choice is the latest."""
    return rows[-1 - choice % len(rows)]


# --- how they are drawn -----------------------------------------------------------------------------------

processes = st.sampled_from([0, 1])
groups = st.sampled_from(GROUPS)
choices = st.integers(0, 4)
delays = st.sampled_from([0, 0, 10, 20])
seldom = st.sampled_from([False, False, False, True])
keys = st.lists(st.sampled_from(["a", "a", "b", ""]), min_size=1, max_size=4)

settlements = st.one_of(
    st.builds(SettleEvents, processes, choices, seldom, st.just("done")),
    st.builds(
        SettleEvents,
        processes,
        choices,
        seldom,
        st.sampled_from(["retry", "snoozed", "released"]),
        seconds=delays,
    ),
    st.builds(
        SettleEvents, processes, choices, seldom, st.sampled_from(["dead", "dead", "cancelled", "expired"])
    ),
)

#: How often each is done, compared with the others.
WEIGHTS: list[tuple[int, st.SearchStrategy[TopicAction]]] = [
    (6, st.builds(Publish, processes, keys, st.sampled_from([0, 0, 0, 10, 20]), seldom)),
    (7, st.builds(ClaimEvents, groups, processes, st.sampled_from([1, 2, 3, 50]))),
    (8, settlements),
    (2, st.builds(Crash, groups)),
    (2, st.builds(PromoteEvents, st.sampled_from([0, 10, 50]))),
    (2, st.builds(Tend, st.sampled_from([1, 2, 100]))),
    (1, st.builds(Arrange, st.sampled_from([None, 2, 4]), st.sampled_from([None, 25, 55]))),
    (1, st.builds(JoinAgain, groups, processes)),
    (2, st.builds(Reset, groups, choices)),
    (1, st.builds(Rejoin, groups, choices)),
    (3, st.builds(ReplayEvents, groups, processes, choices)),
    (1, st.builds(DiscardEvents, groups, choices)),
]
actions: st.SearchStrategy[TopicAction] = st.sampled_from(
    [strategy for weight, strategy in WEIGHTS for _ in range(weight)]
).flatmap(lambda strategy: strategy)
