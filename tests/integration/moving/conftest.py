"""Pairs of stores, between which everything moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headrace.core.messages.ids import new_id
from headrace.core.store import Store
from headrace.stores import open_store
from tests.support.postgres_server import PostgresServer
from tests.support.servers import FIRST_KIND, Fleet

KINDS = ("sqlite", "valkey", "postgresql")

#: The URL and the namespace of a store.
Place = tuple[str, str]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Place]:
    """A new, empty store of a kind."""

    def make(kind: str) -> Place:
        namespace = new_id()
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / namespace}.db", namespace
        if kind == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            return server.url, namespace
        fleet: Fleet = request.getfixturevalue("servers")
        return fleet.get(FIRST_KIND).url, namespace

    return make


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[Place], object]]:
    """Opens stores, which are closed in the end."""
    async with AsyncExitStack() as stack:

        async def open(place: Place) -> Store:
            store = open_store(place[0], namespace=place[1])
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open
