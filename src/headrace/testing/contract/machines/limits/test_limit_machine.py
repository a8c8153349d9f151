"""Random actions on a queue with limits, tenants and ordered jobs: each store does what the model allows."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headrace.core.limits.limiting import Limiting
from headrace.core.runtime.clock import MovableClock
from headrace.testing.contract.machines.machine import lengths, run_machine
from headrace.testing.contract.under_test import StoreUnderTest

from .actions import actions
from .pair import LimitPair


@pytest.mark.whole("the model knows one order")
@pytest.mark.timeout(7200)  # the nightly profile takes its time
@lengths
def test_a_store_keeps_limits_as_the_model_does(store_under_test: StoreUnderTest, examples: settings) -> None:
    if not isinstance(store_under_test.create("limits", MovableClock()), Limiting):
        pytest.skip("limits, tenants and ordered jobs are a capability: it is not Limiting")
    run_machine(LimitPair, actions, store_under_test, examples)
