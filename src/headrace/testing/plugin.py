"""The pytest plugin: fixtures, and nothing that a suite which asks for none of them would notice. It also has
the contract suite collected where a test module imports it.

They are plain fixtures, so they serve plain tests, those of pytest-asyncio in either mode, and anyio's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from headrace.app import App

from .clock import Clock
from .kit import Kit
from .modes import kit_of, memory

#: So that a failed assertion of the contract suite shows its values.
pytest.register_assert_rewrite("headrace.testing.contract")


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "whole(reason): of the contract suite: not for a stream that is split into parts",
        "more: of the contract suite: takes minutes; leave it out with -m 'not more'",
    ):
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Collect the contract suite where a test module imports it."""
    if "headrace.testing.contract" not in sys.modules:
        return None
    from .contract import suite  # not before somebody wants it: what it needs may not be installed

    return suite.collector(collector, name) if obj is suite else None


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
