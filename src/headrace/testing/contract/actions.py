"""What can be done to a store, as values: each does it to the model too and compares the answers.

What it is done to, an action looks up in the model when it is played, by a choice that was drawn before, and
where there is nothing it sees to it that there is. So any sequence of actions does much, also one of few, and
also what is left of one when Hypothesis shortens it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import msgspec
from hypothesis import strategies as st

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch, Message, State, TrailEntry, UniqueKey
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
    Settlement,
    Snoozed,
)
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds

from .pair import IDS, TOLERANCE_US, HandOut, Pair
from .stand import FAILURE

T = TypeVar("T")

TROUBLE = TrailEntry(1, "failed", "worker", "no such row")


class Action(Protocol):
    def play(self, pair: Pair) -> None: ...


# --- in ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Append:
    """With `fresh` under ids that are not in use, as far as there are any."""

    process: int
    messages: list[Message]
    limit: int | None
    fresh: bool

    def play(self, pair: Pair) -> None:
        number, messages = pair.next_number(), self.messages
        if self.fresh:
            unused = [id for id in IDS if pair.model.status(id) is JobStatus.UNKNOWN]
            named = zip(messages, [*unused, *IDS], strict=False)
            messages = [msgspec.structs.replace(message, id=id) for message, id in named]
        batch = Batch(pair.stand.stream, f"producer-{self.process}", number, messages, self.limit)
        pair.last_batches[self.process] = batch
        assert pair.run(pair.backends[self.process].append(batch)) == pair.model.append(batch)


@dataclass(frozen=True)
class AppendAgain:
    """The last batch of a producer, whose answer was lost, over another connection."""

    producer: int

    def play(self, pair: Pair) -> None:
        batch = pair.last_batches.get(self.producer)
        if batch and pair.model.remembers(batch):
            assert pair.run(pair.backends[1 - self.producer].append(batch)) == pair.model.append(batch)


# --- out and back -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimSome:
    process: int
    limit: int
    suspects: int

    def play(self, pair: Pair) -> None:
        consumer = f"worker-{self.process}"
        claims = self._claim(pair, consumer)
        ids = [claim.id for claim in claims]
        assert len(set(ids)) == len(ids)
        assert pair.model.places(ids) in pair.model.offers(self.limit, self.suspects)
        for claim in claims:
            pair.compare_claim(claim)
            number = pair.next_number()
            pair.model.hand_out(claim.id, number, consumer)
            pair.hand_outs.append((number, claim))

    def _claim(self, pair: Pair, consumer: str) -> list[Claim]:
        return pair.run(
            pair.backends[self.process].claim(
                [pair.stand.source], consumer=consumer, limit=self.limit, suspects=self.suspects, wait=0
            )
        )


@dataclass(frozen=True)
class Pause:
    """Pause, try to claim, and resume: for longer nothing would happen at all."""

    process: int

    def play(self, pair: Pair) -> None:
        for paused in (True, False):
            pair.run(pair.backends[self.process].pause(pair.stand.stream, paused=paused))
            pair.model.paused = paused
            ClaimSome(1 - self.process, limit=1, suspects=1).play(pair)
            pair.compare_counts()


@dataclass(frozen=True)
class Settle:
    """How a worker settles what it holds, or with `late` what it once held and does not know better."""

    process: int
    choice: int
    late: bool
    outcome: Literal["done", "retry", "snoozed", "released", "dead", "cancelled", "expired"]
    change: Literal["failed", "crashed", "released", "nothing"] = "nothing"
    seconds: int = 0
    value: bytes | None = None

    def play(self, pair: Pair) -> None:
        if not self.late and not pair.held():
            ClaimSome(self.process, limit=1, suspects=1).play(pair)
        hand_outs = pair.lost() if self.late else pair.held()
        if hand_outs:
            number, claim = _chosen(hand_outs, self.choice)
            outcome = self._outcome(claim.state)
            (verdict,) = pair.run(pair.backends[self.process].settle([Settlement(claim, outcome)]))
            assert verdict == pair.model.settle(claim.id, number, outcome)

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
                return Dead(state.failed(TROUBLE), DeadReason.EXHAUSTED, FAILURE)
            case "cancelled":
                return Cancelled(span_us)
            case "expired":
                return Expired(span_us)

    def _changed(self, state: State) -> State:
        match self.change:
            case "failed":
                return state.failed(TROUBLE)
            case "crashed":
                return state.crashed(TROUBLE)
            case "released":
                return state.released()
            case "nothing":
                return state


@dataclass(frozen=True)
class Renew:
    """One that is held, one that was lost, and the first again."""

    choice: int

    def play(self, pair: Pair) -> None:
        renewed: list[HandOut] = [
            _chosen(hand_outs, self.choice) for hand_outs in (pair.held(), pair.lost()) if hand_outs
        ]
        renewed += renewed[:1]
        answers = pair.run(pair.stand.renew(*[claim for _, claim in renewed]))
        assert answers == [pair.model.renew(claim.id, number) for number, claim in renewed]


# --- time and upkeep --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wait:
    seconds: int

    def play(self, pair: Pair) -> None:
        pair.run(pair.stand.advance(self.seconds))
        pair.model.now += self.seconds


@dataclass(frozen=True)
class Prune:
    """Changes nothing that can be seen, so the model knows nothing of it."""

    def play(self, pair: Pair) -> None:
        pair.run(pair.backends[0].prune(limit=100))


@dataclass(frozen=True)
class Reclaim:
    """Whoever did not renew has crashed, or so it seems: what they settle from now on comes too late."""

    after: int

    def play(self, pair: Pair) -> None:
        Wait(self.after).play(pair)
        recovered = pair.run(pair.stand.reclaim(limit=2))
        assert {recovery.id for recovery in recovered} == pair.model.overdue()
        pair.model.next_moment()
        for recovery in recovered:
            assert recovery.worker == pair.model.jobs[recovery.id].worker
            assert (recovery.crashes, recovery.status) == pair.model.recover(recovery.id)


@dataclass(frozen=True)
class Promote:
    process: int
    limit: int
    after: int

    def play(self, pair: Pair) -> None:
        Wait(self.after).play(pair)
        promoted = pair.run(pair.backends[self.process].promote([pair.stand.source], limit=self.limit))
        assert promoted.count == pair.model.promote(self.limit)
        next_due = pair.model.next_due()
        assert (promoted.next_in_us is None) == (next_due is None)
        if promoted.next_in_us is not None and next_due is not None:
            assert abs(promoted.next_in_us - microseconds(next_due)) < TOLERANCE_US


# --- steering ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cancel:
    process: int
    choice: int
    mark: int

    def play(self, pair: Pair) -> None:
        id, ttl_us = _chosen(["nobody", *pair.model.jobs], self.choice), microseconds(self.mark)
        answer = pair.run(pair.backends[self.process].cancel(pair.stand.stream, id, ttl_us=ttl_us))
        assert answer == pair.model.cancel(id, ttl_us)


@dataclass(frozen=True)
class Replay:
    process: int
    choice: int
    also: str

    def play(self, pair: Pair) -> None:
        if not pair.model.dead:
            Settle(self.process, self.choice, False, "dead").play(pair)
        ids = [_chosen(["nobody", *pair.model.dead], self.choice), self.also]
        answers = pair.run(pair.backends[self.process].replay(pair.stand.stream, ids))
        assert answers == [pair.model.replay(id) for id in ids]


@dataclass(frozen=True)
class Discard:
    process: int
    choice: int
    also: str

    def play(self, pair: Pair) -> None:
        if not pair.model.dead:
            Settle(self.process, self.choice, False, "dead").play(pair)
        ids = [_chosen(["nobody", *pair.model.dead], self.choice), self.also]
        discarded = pair.run(pair.backends[self.process].discard(pair.stand.stream, ids))
        assert discarded == sum([pair.model.discard(id) for id in ids])


@dataclass(frozen=True)
class Hasten:
    process: int
    choice: int

    def play(self, pair: Pair) -> None:
        id = _chosen(["nobody", *pair.model.jobs], self.choice)
        assert pair.run(pair.backends[self.process].run_now(pair.stand.stream, id)) == pair.model.run_now(id)


@dataclass(frozen=True)
class Rewrite:
    process: int
    choice: int
    body: bytes

    def play(self, pair: Pair) -> None:
        id = _chosen(["nobody", *pair.model.jobs], self.choice)
        rewritten = pair.run(pair.backends[self.process].rewrite(pair.stand.stream, id, self.body))
        assert rewritten == pair.model.rewrite(id, self.body)


@dataclass(frozen=True)
class Purge:
    mark: int

    def play(self, pair: Pair) -> None:
        if pair.model.count(JobStatus.QUEUED) > 2:  # else there would rarely be much in the store
            ttl_us = microseconds(self.mark)
            purged = pair.run(pair.backends[0].purge(pair.stand.stream, ttl_us=ttl_us, limit=100))
            assert purged == pair.model.purge(ttl_us)


def _chosen(rows: list[T], choice: int) -> T:
    """Counted from the end: the smallest choice is the latest."""
    return rows[-1 - choice % len(rows)]


# --- how they are drawn -----------------------------------------------------------------------------------

#: Seconds; see the model for why they are multiples of ten.
delays = st.sampled_from([0, 0, 0, 10, 20])
marks = st.sampled_from([0, 10, 40])

processes = st.sampled_from([0, 1])
choices = st.integers(0, 3)
bodies = st.binary(max_size=2)
ids = st.sampled_from(IDS)

unique_keys = st.none() | st.builds(
    UniqueKey,
    key=st.just("key"),
    until=st.sampled_from(["finished", "started", "elapsed"]),
    window_us=st.sampled_from([microseconds(10), microseconds(30)]),
)
messages = st.builds(
    Message,
    id=ids,
    task=st.just("greet"),
    body=bodies,
    priority=st.integers(0, 2),
    delay_us=delays.map(microseconds),
    lifetime_us=st.sampled_from([0, microseconds(60)]),
    unique=unique_keys,
)
#: Of one batch no two are due later at the same moment: their order would be open.
batches = st.lists(messages, min_size=1, max_size=4, unique_by=lambda message: message.delay_us or object())

mostly, seldom = st.sampled_from([True, True, True, False]), st.sampled_from([False, False, True])
settlements = st.one_of(
    st.builds(Settle, processes, choices, seldom, st.just("done"), seconds=marks, value=st.none() | bodies),
    st.builds(
        Settle,
        processes,
        choices,
        seldom,
        st.sampled_from(["retry", "snoozed", "released"]),
        change=st.sampled_from(["failed", "crashed", "released", "nothing"]),
        seconds=delays,
    ),
    st.builds(
        Settle, processes, choices, seldom, st.sampled_from(["dead", "cancelled", "expired"]), seconds=marks
    ),
)

#: How often each is done, compared with the others.
WEIGHTS: list[tuple[int, st.SearchStrategy[Action]]] = [
    (6, st.builds(Append, processes, batches, st.sampled_from([None, None, 2, 4]), fresh=mostly)),
    (1, st.builds(AppendAgain, processes)),
    (5, st.builds(ClaimSome, processes, st.integers(1, 3), st.sampled_from([4, 1, 0]))),
    (1, st.builds(Pause, processes)),
    (7, settlements),
    (2, st.builds(Renew, choices)),
    (1, st.builds(Wait, st.sampled_from([10, 20, 40, 100]))),
    (1, st.builds(Prune)),
    (3, st.builds(Reclaim, st.sampled_from([0, 10, 40]))),
    (2, st.builds(Promote, processes, st.sampled_from([1, 100]), st.sampled_from([0, 10, 50]))),
    (2, st.builds(Cancel, processes, choices, marks)),
    (2, st.builds(Replay, processes, choices, ids)),
    (1, st.builds(Discard, processes, choices, ids)),
    (1, st.builds(Purge, marks)),
    (1, st.builds(Hasten, processes, choices)),
    (1, st.builds(Rewrite, processes, choices, bodies)),
]
actions: st.SearchStrategy[Action] = st.sampled_from(
    [strategy for weight, strategy in WEIGHTS for _ in range(weight)]
).flatmap(lambda strategy: strategy)
