"""Hypothesis drives a topic of each store and its groups, one of them ordered, against the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.core.clock import MovableClock
from headrace.core.ids import new_id
from headrace.engine.streams import StreamRouter
from tests.contract.topic_actions import Action, actions
from tests.contract.topic_pair import TopicPair
from tests.routers import open_router


class TopicMachine(RuleBasedStateMachine):
    def __init__(self, create: Callable[[MovableClock], Callable[[], StreamRouter]]) -> None:
        super().__init__()
        self.pair = TopicPair(create)

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
    "the model knows one log; tests/unit/engine/streams/test_topic_histories.py has one of parts"
)
@pytest.mark.timeout(7200)  # the nightly profile takes its time
def test_groups_get_what_the_model_owes_them(store_url: str) -> None:
    def create(clock: MovableClock) -> Callable[[], StreamRouter]:
        """A namespace of its own for each example is as good as an empty store."""
        namespace = new_id()
        return lambda: open_router(store_url, namespace=namespace, clock=clock)

    class Machine(TopicMachine):
        def __init__(self) -> None:
            super().__init__(create)

    run_state_machine_as_test(Machine)
