"""Hypothesis drives a topic of each store and its groups, one of them ordered, against the model."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.testing.contract.under_test import StoreUnderTest

from .pair import clock_for, lengths, time_limit
from .topic_actions import TopicAction, actions
from .topic_pair import TopicPair


class TopicMachine(RuleBasedStateMachine):
    def __init__(self, store: StoreUnderTest) -> None:
        super().__init__()
        clock = clock_for(store)
        self.until = time_limit(clock)
        self.pair = TopicPair(store, clock)

    def teardown(self) -> None:
        try:
            if time.monotonic() < self.until:
                self.pair.check_that_nothing_was_lost()
        finally:
            self.pair.close()

    @rule(action=actions)
    def play(self, action: TopicAction) -> None:
        if time.monotonic() < self.until:
            action.play(self.pair)

    @invariant()
    def both_agree(self) -> None:
        if time.monotonic() < self.until:
            self.pair.compare_log()
            self.pair.compare_groups()


@pytest.mark.whole(
    "the model knows one log; tests/unit/engine/streams/test_topic_histories.py has one of parts"
)
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_groups_get_what_the_model_owes_them(store_under_test: StoreUnderTest, examples: settings) -> None:
    class MachineOnTopics(TopicMachine):
        def __init__(self) -> None:
            super().__init__(store_under_test)

    run_state_machine_as_test(MachineOnTopics, settings=examples)
