"""What can be done to a queue with limits, tenants and ordered jobs. See `actions.py`."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.paused_tasks import pause_of
from headrace.core.limits.rate import Rate
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.outcome import Released
from headrace.testing.contract.kit.stand import WORK
from headrace.testing.contract.machines.actions import (
    Action,
    ClaimSome,
    Promote,
    choices,
    chosen,
    common,
    mostly,
    processes,
    weighted,
)
from headrace.testing.contract.machines.jobs.actions import (
    Append,
    AppendAgain,
    Cancel,
    Pause,
    Purge,
    Rewrite,
    RunNow,
    bodies,
    kept_seconds,
    messages,
    replacing,
    settled,
    work,
)

from .pair import DECLARED, LimitPair


@dataclass(frozen=True)
class ClaimAll:
    """Every message for which a slot and a token are free must come."""

    process: int

    def play(self, pair: LimitPair) -> None:
        pair.drain(WORK, self.process)


@dataclass(frozen=True)
class HandBack:
    """A worker hands a message back, before it has begun with it or later; also with other constraints."""

    process: int
    choice: int
    unstarted: bool
    constraints: Constraints | None

    def play(self, pair: LimitPair) -> None:
        if held := pair.busy(WORK, self.process):
            hand_out = chosen(held, self.choice)
            state = hand_out.claim.state.released()
            outcome = Released(state, unstarted=self.unstarted, constraints=self.constraints)
            pair.settle(hand_out, outcome, self.process)


@dataclass(frozen=True)
class SetLimit:
    """An administrator sets the figures of a limit; None: those of its declaration hold again."""

    process: int
    name: str
    figures: LimitFigures | None

    def play(self, pair: LimitPair) -> None:
        pair.set_limit(self.name, self.figures, self.process)


@dataclass(frozen=True)
class DeclareAgain:
    """Another process declares other figures."""

    process: int
    figures: LimitFigures

    def play(self, pair: LimitPair) -> None:
        pair.declare(self.figures, self.process)


@dataclass(frozen=True)
class PauseTask:
    """Pause a task, or resume it. Workers give the limit to the jobs that they claim: see `HandBack`."""

    process: int
    paused: bool

    def play(self, pair: LimitPair) -> None:
        pair.declare(pause_of("greet", paused=self.paused), self.process)


# --- how they are drawn -----------------------------------------------------------------------------------

names = st.sampled_from([figures.name for figures in DECLARED[:3]])
limit_keys = st.sampled_from(
    [LimitKey("stripe"), LimitKey("user", "a"), LimitKey("user", "b"), LimitKey("sms"), LimitKey("unknown")]
)
tenants = st.sampled_from(["", "", "red", "blue"])
constraints = st.builds(
    Constraints, st.lists(limit_keys, max_size=2, unique=True).map(tuple), tenants
).filter(lambda each: bool(each.limits or each.tenant))
paused = st.builds(
    Constraints, st.lists(limit_keys, max_size=1).map(lambda keys: (*keys, LimitKey("paused:greet"))), tenants
)

limited = st.builds(
    lambda message, constraints, key: msgspec.structs.replace(message, constraints=constraints, key=key),
    messages | messages | replacing,
    st.none() | constraints | constraints,
    st.sampled_from(["", "", "one", "two"]),
)
#: Of one batch no two are due later at the same moment: their order would be open.
batches = st.lists(limited, min_size=1, max_size=5, unique_by=lambda message: message.delay_us or object())

figures = st.one_of(
    st.builds(LimitFigures, names, max_running=st.integers(1, 3)),
    st.builds(
        LimitFigures, names, max_running=st.none(), rate=st.sampled_from([None, Rate.parse("2/m", burst=1)])
    ),
)

actions: st.SearchStrategy[Action[LimitPair]] = weighted(
    [
        *common(work),
        (8, st.builds(Append, processes, batches, st.sampled_from([None, None, 4]), fresh=mostly)),
        (1, st.builds(AppendAgain, processes)),
        (4, st.builds(ClaimSome, work, processes, st.integers(1, 3), st.sampled_from([4, 1, 0]))),
        (4, st.builds(ClaimAll, processes)),
        (8, settled),
        (3, st.builds(HandBack, processes, choices, mostly, st.none() | constraints | paused)),
        (2, st.builds(Promote, processes, st.sampled_from([1, 100]), st.sampled_from([0, 10, 50]))),
        (2, figures.flatmap(lambda each: st.builds(SetLimit, processes, st.just(each.name), st.just(each)))),
        (2, st.builds(SetLimit, processes, names, st.none())),
        (1, st.builds(DeclareAgain, processes, figures)),
        (2, st.builds(PauseTask, processes, st.booleans())),
        (1, st.builds(Pause, processes)),
        (2, st.builds(Cancel, processes, choices, kept_seconds)),
        (1, st.builds(Purge, kept_seconds)),
        (1, st.builds(RunNow, processes, choices)),
        (1, st.builds(Rewrite, processes, choices, bodies)),
    ]
)
