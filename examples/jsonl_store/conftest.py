"""How the suite makes the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonl_store import JsonlStore

from headrace.testing.contract import StoreUnderTest


@pytest.fixture
def store_under_test(tmp_path: Path) -> StoreUnderTest:
    return StoreUnderTest(
        lambda namespace, clock: JsonlStore(tmp_path / f"{namespace}.jsonl", clock=clock),
        name="json lines",
        any_integer=True,
    )
