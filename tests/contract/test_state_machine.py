"""Hypothesis drives each store against the model: whatever is done in whatever order, both say the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.core.clock import MovableClock
from headrace.core.ids import new_id
from headrace.engine.streams import StreamRouter
from tests.contract.actions import Action, actions
from tests.contract.pair import Pair
from tests.routers import open_router


class StoreMachine(RuleBasedStateMachine):
    """One rule for all actions. With a rule each, Hypothesis leaves out some of them in every run, to see
    what the others do alone, and most of the short runs were without appends, claims or settlements."""

    def __init__(self, create: Callable[[MovableClock], Callable[[], StreamRouter]]) -> None:
        super().__init__()
        self.pair = Pair(create)

    def teardown(self) -> None:
        self.pair.close()

    @rule(action=actions)
    def play(self, action: Action) -> None:
        action.play(self.pair)

    @invariant()
    def counts_agree(self) -> None:
        self.pair.compare_counts()

    @invariant()
    def every_message_is_where_it_should_be(self) -> None:
        self.pair.compare_records()

    @invariant()
    def dead_letters_are_listed_the_latest_first(self) -> None:
        self.pair.compare_dead_letters()


@pytest.mark.whole("the model knows one order")
@pytest.mark.timeout(7200)  # the nightly profile takes its time
def test_a_store_does_what_the_model_does(store_url: str) -> None:
    def create(clock: MovableClock) -> Callable[[], StreamRouter]:
        """A namespace of its own for each example is as good as an empty store."""
        namespace = new_id()
        return lambda: open_router(store_url, namespace=namespace, clock=clock)

    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(create)

    run_state_machine_as_test(Machine)
