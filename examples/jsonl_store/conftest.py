"""How the suite makes the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonl_store import JsonlStore
from jsonl_store.messages import NEVER

from headrace.store import Store
from headrace.testing.contract import StoreUnderTest


@pytest.fixture
def store_under_test(tmp_path: Path) -> StoreUnderTest:
    return StoreUnderTest(
        lambda namespace, clock: JsonlStore(tmp_path / f"{namespace}.jsonl", clock=clock),
        name="json lines",
        any_integer=True,
        check_forgotten=check_forgotten,
    )


async def check_forgotten(store: Store) -> None:
    """Nothing of ended messages is left in memory."""
    assert isinstance(store, JsonlStore)
    for stream in store.journal.state.streams.values():
        end_records = [
            record for record in stream.end_records.values() if record.until_us < NEVER
        ]  # one test keeps a record so long
        left = stream.entries, stream.due, stream.running, end_records, stream.keys, stream.producers
        assert not any(left), f"{stream.stream.name}: {left}"
