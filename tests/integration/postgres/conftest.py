"""The PostgreSQL server of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres_server import PostgresServer

pytest.register_assert_rewrite("tests.integration.support.postgres_steps")


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """One for all tests that do not stop it and change none of its settings."""
    with PostgresServer() as server:
        yield server
