"""The pytest plugin: its fixtures do not affect a suite that does not use them. It also collects the contract
suite where a test module imports it.

The fixtures are plain, so they work in plain tests, with pytest-asyncio in either mode, and with anyio.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from headrace.app import App

from .clock import Clock
from .kit import Kit
from .modes import kit_of, memory

#: With this, a failed assertion of the contract suite shows its values.
pytest.register_assert_rewrite("headrace.testing.contract")


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "whole(reason): of the contract suite: not for a stream that is split into parts",
        "one_place(reason): of the contract suite: not where each queue may be on another server",
        "timeout(seconds): of the contract suite: needs pytest-timeout",
        "more: of the contract suite: takes minutes; leave it out with -m 'not more'",
    ):
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Collect the contract suite where a test module imports it."""
    if "headrace.testing.contract" not in sys.modules:
        return None
    from .contract import suite  # only when it is used: its dependencies may not be installed

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
    """The `headrace.testing.Kit` of `headrace_app`, which is on a private memory store during the test."""
    kit = kit_of(headrace_app)
    if kit is not None:
        yield kit
        return
    with memory(headrace_app, clock=headrace_clock) as kit:
        yield kit
