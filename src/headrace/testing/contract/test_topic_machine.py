"""Hypothesis drives a topic of each store and its groups, one of them ordered, against the model."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from .topic_actions import Action, actions
from .topic_pair import TopicPair
from .under_test import StoreUnderTest


class TopicMachine(RuleBasedStateMachine):
    def __init__(self, store: StoreUnderTest) -> None:
        super().__init__()
        self.pair = TopicPair(store)

    def teardown(self) -> None:
        try:
            self.pair.check_that_nothing_was_lost()
        finally:
            self.pair.close()

    @rule(action=actions)
    def play(self, action: Action) -> None:
        action.play(self.pair)

    @invariant()
    def the_log_holds_what_it_should(self) -> None:
        self.pair.compare_log()

    @invariant()
    def every_group_has_what_it_should(self) -> None:
        self.pair.compare_groups()


@pytest.mark.whole(
    "the model knows one log; tests/unit/backends/test_topic_splits_at_any_time.py has one of parts"
)
@pytest.mark.timeout(7200)  # the nightly profile takes its time
def test_groups_get_what_the_model_owes_them(store_under_test: StoreUnderTest) -> None:
    class Machine(TopicMachine):
        def __init__(self) -> None:
            super().__init__(store_under_test)

    run_state_machine_as_test(Machine, settings=settings(deadline=None))
