"""What every suite shares: one event loop library, and real servers that start when they are first needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.servers import Fleet, Server, rows

# `pytest --hypothesis-profile=nightly` looks for what the same quick examples at every commit do not find.
settings.register_profile("commit", max_examples=120, stateful_step_count=40, derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=3000, stateful_step_count=80, deadline=None)
settings.load_profile("commit")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The servers of this process (under xdist each has its own): `servers.get("redis-6.2")`."""
    fleet = Fleet(tmp_path_factory.mktemp("servers"))
    yield fleet
    fleet.stop()


@pytest.fixture(scope="session", params=rows())
def redis_server(request: pytest.FixtureRequest, servers: Fleet) -> Server:
    """The test runs once for each kind of server. It shares the server: it must leave it as it was."""
    return servers.get(request.param)
