"""An app on each store: what the public API promises holds on all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from tests.support.servers import Fleet, rows

#: Makes an app on the store of the test. All of one test share their queues.
MakeApp = Callable[..., App]


@pytest.fixture(params=["memory", "sqlite", *rows()])
def store_url(request: pytest.FixtureRequest, tmp_path: Path, servers: Fleet) -> str:
    match request.param:
        case "memory":
            return f"memory://{new_id()}"
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db"
        case kind:
            return servers.get(kind).url


@pytest.fixture
async def make_app(store_url: str) -> AsyncIterator[MakeApp]:
    apps: list[App] = []
    namespace = new_id()

    def make(**options: Any) -> App:
        apps.append(App(store_url, namespace=namespace, **options))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()
