"""The fixtures of the suite. They are visible to its own tests alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.core.limits.limiting import Limiting
from headrace.testing.contract.under_test import StoreUnderTest

from .orders import Orders
from .stand import Stand
from .tidy import check_that_nothing_is_left


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def only_where_it_holds(store_under_test: StoreUnderTest, request: pytest.FixtureRequest) -> None:
    whole = request.node.get_closest_marker("whole")
    if whole is not None and store_under_test.parts > 1:
        pytest.skip(f"not for a stream that is split into parts: {whole.args[0]}")


@pytest.fixture
def limiting(stand: Stand) -> None:
    """A test that uses it is about limits, tenants or ordered jobs."""
    if not isinstance(stand.backend.store, Limiting):
        pytest.skip("limits, tenants and ordered jobs are a capability: it is not Limiting")


@pytest.fixture
def kind() -> str:
    """What a test claims from. `queue_and_group` has it run on both."""
    return "queue"


@pytest.fixture
async def stand(store_under_test: StoreUnderTest, kind: str) -> AsyncIterator[Stand]:
    stand = Stand(store_under_test, kind=kind)
    try:
        await stand.open()
        yield stand
        await check_that_nothing_is_left(stand)
    finally:
        await stand.close()


@pytest.fixture
def orders(stand: Stand) -> Orders:
    return Orders(stand)
