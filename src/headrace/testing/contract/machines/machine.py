"""Has Hypothesis draw actions and do them to a store and its model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.core.runtime.clock import MovableClock
from headrace.testing.contract.under_test import StoreUnderTest

from .actions import Action
from .pair import Pair

P = TypeVar("P", bound=Pair)

#: How much a test of a machine tries. In `make test` it is a few examples, which are not made smaller when
#: one fails, since that takes minutes. In `make test-more` it is what the profile says.
lengths = pytest.mark.parametrize(
    "examples",
    [
        pytest.param(settings(max_examples=20, phases=[Phase.generate], deadline=None), id="few"),
        pytest.param(settings(deadline=None), id="many", marks=pytest.mark.more),
    ],
)

#: Seconds after which an example on a server is cut short.
LONGEST: Final = 7.0


def run_machine(
    make_pair: Callable[[StoreUnderTest, MovableClock], P],
    actions: st.SearchStrategy[Action[P]],
    store: StoreUnderTest,
    examples: settings,
) -> None:
    """Whatever is done in whatever order, the store and its model say the same."""

    class Machine(RuleBasedStateMachine):
        """One rule for all actions. With a rule each, Hypothesis leaves out some of them in every run, to see
        what the others do alone, and most of the short runs were without appends, claims or settlements."""

        def __init__(self) -> None:
            super().__init__()
            clock = _clock_for(store)
            self.until = _time_limit(clock)
            self.pair = make_pair(store, clock)

        def teardown(self) -> None:
            try:
                if time.monotonic() < self.until:
                    self.pair.finish()
            finally:
                self.pair.close()

        @rule(action=actions)
        def play(self, action: Action[P]) -> None:
            if time.monotonic() < self.until:
                action.play(self.pair)

        @invariant()
        def both_agree(self) -> None:
            if time.monotonic() < self.until:
                self.pair.compare()

    run_state_machine_as_test(Machine, settings=examples)


class SlowClock(MovableClock):
    """Goes on by a microsecond at each reading. So a store that goes by this clock agrees with the model,
    however long a run takes."""

    def __init__(self) -> None:
        super().__init__()
        self._started_us = super().now_us()
        self._readings = count(1)

    def now_us(self) -> int:
        return self._started_us + self.elapsed_us()

    def elapsed_us(self) -> int:
        return self.offset_us + next(self._readings)


def _clock_for(store: StoreUnderTest) -> MovableClock:
    """A server has a clock of its own, and a store compares that with ours."""
    return MovableClock() if store.server_clock else SlowClock()


def _time_limit(clock: MovableClock) -> float:
    """When an example must be at its end. On a server real time counts, and the model tolerates little."""
    return math.inf if isinstance(clock, SlowClock) else time.monotonic() + LONGEST
