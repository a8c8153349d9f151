"""An app on memory, and a short way to have its jobs run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace import App, RetryPolicy

Drain = Callable[[], Awaitable[None]]


@pytest.fixture
async def app() -> AsyncIterator[App]:
    app = App("memory://", retry=RetryPolicy.fixed(1, 0.01))
    yield app
    await app.close()


@pytest.fixture
def drain(app: App) -> Drain:
    """Run what is queued, retrying or due, until nothing of it is left."""

    async def drain() -> None:
        await app.worker(concurrency=5).run(burst=True)

    return drain
