"""The pytest plugin: fixtures, and nothing that a suite which asks for none of them would notice.

They are plain fixtures, so they serve plain tests, those of pytest-asyncio in either mode, and anyio's.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.app import App

from .clock import Clock
from .kit import Kit
from .modes import kit_of, memory


@pytest.fixture
def headrace_clock() -> Clock:
    """The clock of `headrace_app` and `headrace_kit`: `headrace_clock.advance(60)`."""
    return Clock()


@pytest.fixture
def headrace_app(headrace_clock: Clock) -> Iterator[App]:
    """A fresh app on a private memory store. Override it with one that returns your own app."""
    app = App("memory://")
    with memory(app, clock=headrace_clock):
        yield app


@pytest.fixture
def headrace_kit(headrace_app: App, headrace_clock: Clock) -> Iterator[Kit]:
    """The `headrace.testing.Kit` of `headrace_app`, which stands on a private memory store meanwhile."""
    kit = kit_of(headrace_app)
    if kit is not None:
        yield kit
        return
    with memory(headrace_app, clock=headrace_clock) as kit:
        yield kit
