"""What can be done to a queue and to a group alike, as values.

Each action does it to the store and to the model, and compares the answers. What can be done to queues or to
topics alone is in `job_actions.py` and `topic_actions.py`. To add an action, write a class with `play`, and
add it to the list of weights at the end of its module.

An action looks up in the model what it is done to, by a choice that was drawn before. Where there is nothing,
it sees to it that there is something. So any sequence of actions does much: also a short one, and also one
that Hypothesis has made shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeVar

from hypothesis import strategies as st

from headrace.core.messages.message import State, Stream, TrailEntry
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Kept,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import FAILURE

from .pair import Pair

T = TypeVar("T")
P = TypeVar("P", bound=Pair)
P_contra = TypeVar("P_contra", bound=Pair, contravariant=True)

ENTRY: Final = TrailEntry(1, "failed", "worker", "no such row")


class Action(Protocol[P_contra]):
    def play(self, pair: P_contra) -> None: ...


# --- out and back -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimSome:
    stream: Stream
    process: int
    limit: int
    suspects: int

    def play(self, pair: Pair) -> None:
        pair.fill(self.stream)
        pair.claim(self.stream, self.process, self.limit, self.suspects)


@dataclass(frozen=True)
class Settle:
    """A worker settles a claim that it holds, or with `late` one that it has lost without knowing."""

    stream: Stream
    process: int
    choice: int
    late: bool
    outcome: Literal["done", "retry", "snoozed", "released", "dead", "cancelled", "expired"]
    change: Literal["failed", "crashed", "released", "snoozed", "nothing"] = "nothing"
    seconds: int = 0
    value: bytes | None = None
    forwards: int = 0

    def play(self, pair: Pair) -> None:
        if hand_outs := pair.lost() if self.late else pair.busy(self.stream, self.process):
            hand_out = chosen(hand_outs, self.choice)
            pair.settle(hand_out, self._outcome(hand_out.claim.state), self.process, self.forwards)

    def _outcome(self, state: State) -> Outcome:
        span_us = microseconds(self.seconds)
        match self.outcome:
            case "done":
                return Done(Kept(self.value, span_us) if self.value is not None else None)
            case "retry":
                return Retry(self._changed(state), span_us)
            case "snoozed":
                return Snoozed(self._changed(state), span_us)
            case "released":
                return Released(self._changed(state), span_us)
            case "dead":
                return Dead(state.failed(ENTRY), DeadReason.EXHAUSTED, FAILURE)
            case "cancelled":
                return Cancelled(span_us)
            case "expired":
                return Expired(span_us)

    def _changed(self, state: State) -> State:
        match self.change:
            case "failed":
                return state.failed(ENTRY)
            case "crashed":
                return state.crashed(ENTRY)
            case "released":
                return state.released()
            case "snoozed":
                return state.snoozed(ENTRY)
            case "nothing":
                return state


@dataclass(frozen=True)
class Renew:
    """Renew a claim that is held, one that was lost, and the first again."""

    choice: int

    def play(self, pair: Pair) -> None:
        renewed = [chosen(hand_outs, self.choice) for hand_outs in (pair.held(), pair.lost()) if hand_outs]
        renewed += renewed[:1]
        answers = pair.run(pair.stand.renew(*[each.claim for each in renewed]))
        assert answers == [pair.streams[each.stream].renew(each.claim.id, each.number) for each in renewed]


@dataclass(frozen=True)
class RelayBatch:
    """Take a batch from the outbox, and hand it on, all but some of it; or leave it to others."""

    stream: Stream
    process: int
    limit: int
    hands_on: bool
    kept: tuple[int, ...]

    def play(self, pair: Pair) -> None:
        batch = pair.take_outgoing(self.stream, self.process, self.limit)
        if batch is not None and self.hands_on:
            pair.hand_on(batch, self.process, [each for each in self.kept if each < len(batch.entries)])
        pair.compare_outboxes()


# --- time and upkeep --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wait:
    seconds: int

    def play(self, pair: Pair) -> None:
        pair.wait(self.seconds)


@dataclass(frozen=True)
class Prune:
    """Changes nothing that can be seen, so the model knows nothing of it."""

    def play(self, pair: Pair) -> None:
        pair.run(pair.backends[0].prune(limit=100))


@dataclass(frozen=True)
class Reclaim:
    """A worker that did not renew seems to have crashed: what it settles from now on comes too late."""

    after: int

    def play(self, pair: Pair) -> None:
        pair.wait(self.after)
        pair.reclaim()


@dataclass(frozen=True)
class Promote:
    process: int
    limit: int
    after: int

    def play(self, pair: Pair) -> None:
        pair.wait(self.after)
        pair.promote(self.process, self.limit)


# --- dead letters -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenDeadLetters:
    """Names a dead letter, and something that was once claimed."""

    stream: Stream
    process: int
    choice: int
    also: int

    def ids(self, pair: Pair) -> list[str]:
        dead = pair.bury(self.stream, self.process)
        claimed = [each.claim.id for each in pair.hand_outs[-4:]]
        return [chosen(["unknown", *dead], self.choice), chosen(["also unknown", *claimed], self.also)]


class Replay(ChosenDeadLetters):
    def play(self, pair: Pair) -> None:
        ids = self.ids(pair)
        answers = pair.run(pair.backends[self.process].replay(self.stream, ids))
        assert answers == [pair.streams[self.stream].replay(id) for id in ids]


class Discard(ChosenDeadLetters):
    def play(self, pair: Pair) -> None:
        ids = self.ids(pair)
        discarded = pair.run(pair.backends[self.process].discard(self.stream, ids))
        assert discarded == sum([pair.streams[self.stream].discard(id) for id in ids])


def chosen(rows: Sequence[T], choice: int) -> T:
    """Counted from the end: the smallest choice is the latest."""
    return rows[-1 - choice % len(rows)]


# --- how they are drawn -----------------------------------------------------------------------------------

processes = st.sampled_from([0, 1])
choices = st.integers(0, 4)

#: Seconds; see `ModelClock` for why they are multiples of ten.
delays = st.sampled_from([0, 0, 0, 10, 20])

mostly, seldom = st.sampled_from([True, True, True, False]), st.sampled_from([False, False, False, True])


forwarded = st.sampled_from([0, 0, 0, 1, 2])
kept = st.sampled_from([(), (), (0,), (1, 0)])


def common(streams: st.SearchStrategy[Stream]) -> list[tuple[int, st.SearchStrategy[Action[Pair]]]]:
    """Actions that are drawn in the same way for queues and for groups."""
    return [
        (2, st.builds(Renew, choices)),
        (1, st.builds(Wait, st.sampled_from([10, 20, 40, 100]))),
        (1, st.builds(Prune)),
        (3, st.builds(Reclaim, st.sampled_from([0, 10, 40]))),
        (2, st.builds(Replay, streams, processes, choices, choices)),
        (1, st.builds(Discard, streams, processes, choices, choices)),
        (2, st.builds(RelayBatch, streams, processes, st.integers(1, 3), mostly, kept)),
    ]


def settlements(
    streams: st.SearchStrategy[Stream],
    changes: list[str],
    kept: list[int],
    values: st.SearchStrategy[bytes | None],
) -> st.SearchStrategy[Settle]:
    """`changes` of the state of a message that runs again; `kept`: seconds that an end record is kept."""
    what = streams, processes, choices, seldom
    again = st.sampled_from(["retry", "snoozed", "released"])
    over = st.sampled_from(["dead", "cancelled", "expired"])
    return st.one_of(
        st.builds(
            Settle,
            *what,
            st.just("done"),
            seconds=st.sampled_from(kept),
            value=values,
            forwards=forwarded,
        ),
        st.builds(Settle, *what, again, change=st.sampled_from(changes), seconds=delays, forwards=forwarded),
        st.builds(Settle, *what, over, seconds=st.sampled_from(kept), forwards=forwarded),
    )


def weighted(weights: Sequence[tuple[int, st.SearchStrategy[Action[P]]]]) -> st.SearchStrategy[Action[P]]:
    """Each action is drawn as often as its weight says, compared with the others."""
    each = [strategy for weight, strategy in weights for _ in range(weight)]
    return st.sampled_from(each).flatmap(lambda strategy: strategy)
