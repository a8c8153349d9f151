"""The stores of the contract suite: every test runs on the local ones and on every kind of server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.backends import open_backend
from headrace.core.clock import MovableClock
from headrace.core.ids import new_id
from tests.contract.orders import Orders
from tests.contract.stand import Stand
from tests.contract.tidy import check_that_nothing_is_left
from tests.servers import Fleet, rows

LOCAL_STORES = ("memory", "sqlite")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", [*LOCAL_STORES, *rows()], scope="session")


@pytest.fixture
def store_url(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if store == "memory":
        return f"memory://{new_id()}"
    if store == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    fleet: Fleet = request.getfixturevalue("servers")
    return fleet.get(store).url


@pytest.fixture
async def stand(store_url: str) -> AsyncIterator[Stand]:
    # Servers are shared by all tests of a session, so each test has a namespace of its own.
    clock, namespace = MovableClock(), new_id()
    stand = Stand(lambda: open_backend(store_url, namespace=namespace, clock=clock), clock)
    try:
        await stand.open()
        yield stand
        await check_that_nothing_is_left(stand)
    finally:
        await stand.close()


@pytest.fixture
def orders(stand: Stand) -> Orders:
    return Orders(stand)
