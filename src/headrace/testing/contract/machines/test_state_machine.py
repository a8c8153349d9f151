"""Hypothesis drives each store against the model: whatever is done in whatever order, both say the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.testing.contract.under_test import StoreUnderTest

from .actions import Action, actions
from .pair import Pair, clock_for, lengths, time_limit


class StoreMachine(RuleBasedStateMachine):
    """One rule for all actions. With a rule each, Hypothesis leaves out some of them in every run, to see
    what the others do alone, and most of the short runs were without appends, claims or settlements."""

    def __init__(self, store: StoreUnderTest) -> None:
        super().__init__()
        clock = clock_for(store)
        self.until = time_limit(clock)
        self.pair = Pair(store, clock)

    def teardown(self) -> None:
        self.pair.close()

    @rule(action=actions)
    def play(self, action: Action) -> None:
        if time.monotonic() < self.until:
            action.play(self.pair)

    @invariant()
    def both_agree(self) -> None:
        if time.monotonic() < self.until:
            self.pair.compare_counts()
            self.pair.compare_records()
            self.pair.compare_dead_letters()


@pytest.mark.whole("the model knows one order")
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_a_store_does_what_the_model_does(store_under_test: StoreUnderTest, examples: settings) -> None:
    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(store_under_test)

    run_state_machine_as_test(Machine, settings=examples)
