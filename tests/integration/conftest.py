"""Fixtures for tests with real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.support.worker_processes import Workshop
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Server, require

pytest.register_assert_rewrite(
    "tests.integration.support.all_job_outcomes", "tests.integration.support.steady_load"
)


@pytest.fixture
async def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    """Workers on a SQLite file, or on a server of its own where the test names a kind as parameter."""
    kind: str = getattr(request, "param", "sqlite")
    if kind == "sqlite":
        workshop = Workshop(f"sqlite:///{tmp_path}/jobs.db", tmp_path)
        yield workshop
        await workshop.close()
        return
    if kind == "postgresql":
        with PostgresServer() as database:
            workshop = Workshop(database.url, tmp_path, database=database)
            yield workshop
            await workshop.close()
        return
    with Server(require(kind), directory=tmp_path / "server", appendonly=True) as server:
        workshop = Workshop(server.url, tmp_path, server)
        yield workshop
        server.start()  # where a test has killed it
        await workshop.close()
