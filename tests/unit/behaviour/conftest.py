from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace import App, signals
from headrace.core.runtime.clock import MovableClock
from headrace.engine.running import slots as slots_module
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


@pytest.fixture(autouse=True)
def patient_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers hand back what they have buffered for a quarter of a second. A busy machine stops a test for
    longer at any moment, and then jobs would run in another order, and would be counted as handed back."""
    monkeypatch.setattr(slots_module, "LONGEST_BUFFERED", 30.0)


@pytest.fixture
def heard(app: App) -> list[signals.Signal]:
    """Every signal of the app, in order."""
    signals_heard: list[signals.Signal] = []
    app.on(signals.Signal)(signals_heard.append)
    return signals_heard
