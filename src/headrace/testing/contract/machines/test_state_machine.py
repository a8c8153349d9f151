"""Random actions on a queue: whatever is done in whatever order, each store does what the model does."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headrace.testing.contract.under_test import StoreUnderTest

from .job_actions import actions
from .job_pair import JobPair
from .machine import lengths, run_machine


@pytest.mark.whole("the model knows one order")
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_a_store_does_what_the_model_does(store_under_test: StoreUnderTest, examples: settings) -> None:
    run_machine(JobPair, actions, store_under_test, examples)
