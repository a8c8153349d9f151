"""Hypothesis drives a topic of each store and its groups, one of them ordered, against the model."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.core.ids import new_id
from tests.contract.pair import clock_for, lengths, time_limit
from tests.contract.topic_actions import Action, actions
from tests.contract.topic_pair import TopicPair
from tests.routers import open_router


class TopicMachine(RuleBasedStateMachine):
    def __init__(self, store_url: str) -> None:
        super().__init__()
        # A namespace of its own for each example is as good as an empty store.
        clock, namespace = clock_for(store_url), new_id()
        self.until = time_limit(clock)
        self.pair = TopicPair(lambda: open_router(store_url, namespace=namespace, clock=clock), clock)

    def teardown(self) -> None:
        try:
            if time.monotonic() < self.until:
                self.pair.check_that_nothing_was_lost()
        finally:
            self.pair.close()

    @rule(action=actions)
    def play(self, action: Action) -> None:
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
def test_groups_get_what_the_model_owes_them(store_url: str, examples: settings) -> None:
    class Machine(TopicMachine):
        def __init__(self) -> None:
            super().__init__(store_url)

    run_state_machine_as_test(Machine, settings=examples)
