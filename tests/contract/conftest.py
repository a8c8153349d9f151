"""The stores of the contract suite: a test runs on the local ones and one server, `core` on all servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.backends import open_backend
from headrace.core.clock import MovableClock
from headrace.core.ids import new_id
from tests.contract.stand import Stand
from tests.servers import Fleet, rows

LOCAL_STORES = ("memory", "sqlite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "core: the part of the contract that is tested on every kind of server"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        core = metafunc.definition.get_closest_marker("core")
        servers = rows() if core else rows()[:1]
        metafunc.parametrize("store", [*LOCAL_STORES, *servers], scope="session")


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
    finally:
        await stand.close()
