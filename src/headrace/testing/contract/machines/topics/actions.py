"""What can be done to a topic and its groups, and how often each action is done. See `actions.py`."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from headrace.core.messages.message import Stream
from headrace.core.topics.topic import BEGINNING, NEW, Start
from headrace.testing.contract.machines.actions import (
    Action,
    ClaimSome,
    Promote,
    choices,
    chosen,
    common,
    delays,
    processes,
    seldom,
    settlements,
    weighted,
)

from .pair import GROUPS, ORDERED, TopicPair


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
class KeepTopics:
    limit: int

    def play(self, pair: TopicPair) -> None:
        pair.run(pair.orders.keep_topics(*GROUPS, limit=self.limit))


@dataclass(frozen=True)
class DeclareTopic:
    """Bounds by age are between two multiples of ten seconds."""

    max_length: int | None
    max_age: int | None

    def play(self, pair: TopicPair) -> None:
        pair.run(pair.orders.declare_topic(retention=self.max_age or 0, max_length=self.max_length))
        pair.model.max_length, pair.model.max_age = self.max_length, self.max_age


@dataclass(frozen=True)
class JoinAgain:
    """An existing group keeps its position, whatever start it is given."""

    group: Stream
    process: int

    def play(self, pair: TopicPair) -> None:
        joining = pair.backends[self.process].join(self.group, NEW, ordered=self.group == ORDERED)
        assert pair.run(joining) is False


@dataclass(frozen=True)
class Reset:
    """The claim that follows meets again all that the group holds."""

    group: Stream
    choice: int

    def play(self, pair: TopicPair) -> None:
        pair.busy(self.group)
        pair.compare_log()
        start = _start(pair, self.choice)
        assert pair.run(pair.backends[0].reset(self.group, start))
        pair.model.groups[self.group].reset(pair.model.since(start))
        pair.claim(self.group, 1, limit=50, suspects=50)


@dataclass(frozen=True)
class Rejoin:
    """The group is removed and made anew."""

    group: Stream
    choice: int

    def play(self, pair: TopicPair) -> None:
        pair.busy(self.group)
        pair.compare_log()
        assert pair.run(pair.backends[1].remove_stream(self.group))
        assert pair.run(pair.orders.claim(self.group)) == []
        pair.join(self.group, _start(pair, self.choice))


def _start(pair: TopicPair, choice: int) -> Start:
    starts = [NEW, *[Start("event", event=event.id) for event in pair.model.there()][-3:], BEGINNING]
    return chosen(starts, choice)


# --- how they are drawn -----------------------------------------------------------------------------------

groups = st.sampled_from(GROUPS)
keys = st.lists(st.sampled_from(["a", "a", "b", ""]), min_size=1, max_size=4)
settled = settlements(groups, ["failed", "crashed", "released", "snoozed", "nothing"], [0], st.none())

actions: st.SearchStrategy[Action[TopicPair]] = weighted(
    [
        *common(groups),
        (6, st.builds(Publish, processes, keys, delays, seldom)),
        (7, st.builds(ClaimSome, groups, processes, st.sampled_from([1, 2, 3, 50]), st.just(50))),
        (8, settled),
        (2, st.builds(Promote, processes, st.just(100), st.sampled_from([0, 10, 50]))),
        (2, st.builds(KeepTopics, st.sampled_from([1, 2, 100]))),
        (1, st.builds(DeclareTopic, st.sampled_from([None, 2, 4]), st.sampled_from([None, 25, 55]))),
        (1, st.builds(JoinAgain, groups, processes)),
        (2, st.builds(Reset, groups, choices)),
        (1, st.builds(Rejoin, groups, choices)),
    ]
)
