"""Random actions on a topic and its groups, one of them ordered: each group gets what the model owes it."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headrace.testing.contract.machines.machine import lengths, run_machine
from headrace.testing.contract.under_test import StoreUnderTest

from .actions import actions
from .pair import TopicPair


@pytest.mark.whole(
    "the model knows one log; tests/unit/engine/streams/test_topic_histories.py has one of parts"
)
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_groups_get_what_the_model_owes_them(store_under_test: StoreUnderTest, examples: settings) -> None:
    run_machine(TopicPair, actions, store_under_test, examples)
