from __future__ import annotations

import pytest

from tests.unit.engine.bench import Bench


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.open()
    return bench
