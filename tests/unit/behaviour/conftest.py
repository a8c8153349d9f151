from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace import App, signals
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def store(clock: MovableClock) -> InterceptedStore:
    return InterceptedStore(clock)


@pytest.fixture
async def app(store: InterceptedStore, clock: MovableClock) -> AsyncIterator[App]:
    app = App(store=store, clock=clock)
    yield app
    await app.close()


@pytest.fixture
def heard(app: App) -> list[signals.Signal]:
    """Every signal of the app, in order."""
    signals_heard: list[signals.Signal] = []
    app.on(signals.Signal)(signals_heard.append)
    return signals_heard
