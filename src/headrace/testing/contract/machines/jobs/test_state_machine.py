"""Random actions on a queue: whatever is done in whatever order, each store does what the model does."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headrace.testing.contract.machines.machine import lengths, run_machine
from headrace.testing.contract.under_test import StoreUnderTest

from .actions import actions
from .pair import JobPair


@pytest.mark.whole("the model knows one order")
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_a_store_does_what_the_model_does(store_under_test: StoreUnderTest, examples: settings) -> None:
    run_machine(JobPair, actions, store_under_test, examples)
