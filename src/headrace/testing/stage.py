"""Puts an app on another store for a while: here alone is known which of its parts hold store and clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from headrace.app import App
from headrace.core.clock import Clock
from headrace.core.errors import ConfigurationError
from headrace.engine.registry import Middleware
from headrace.engine.streams import StreamRouter

T = TypeVar("T")


@contextmanager
def staged(app: App, backend: StreamRouter, clock: Clock, attend: Middleware) -> Iterator[None]:
    """Let `app` stand on `backend` and tell the time by `clock`, with `attend` around every run. Its own
    store is neither opened nor touched meanwhile, and is back afterwards."""
    _check_unused(app)
    home, jobs, events = app._home, app._jobs, app._events
    with ExitStack() as undo:
        undo.enter_context(replaced(home, _main=backend, _open={}, _left=[], _short_lived=False))
        undo.enter_context(replaced(jobs._encoder, _now_us=clock.now_us))
        undo.enter_context(replaced(events, _clock=clock, _declared=set()))
        for topic in events.topics.values():
            undo.enter_context(replaced(topic.encoder, _now_us=clock.now_us))
        undo.enter_context(replaced(app, _clock=clock))
        undo.enter_context(_first_in(app._registry._middleware, attend))
        undo.callback(_vacate, app)
        yield


@contextmanager
def replaced(owner: object, **attributes: Any) -> Iterator[None]:
    """Give `owner` other values of attributes that it has, and what it had before afterwards."""
    before = {name: getattr(owner, name) for name in attributes}
    its_own = {name for name in attributes if name in vars(owner)}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if name in its_own:
                setattr(owner, name, value)
            else:
                delattr(owner, name)


@contextmanager
def _first_in(these: list[T], one: T) -> Iterator[None]:
    these.insert(0, one)
    try:
        yield
    finally:
        these.remove(one)


def _check_unused(app: App) -> None:
    if app._home.in_use:
        raise ConfigurationError(
            f"{app!r} is open: begin before it is first used, or close it first, with `await app.close()` "
            "or `app.sync.close()`"
        )


def _vacate(app: App) -> None:
    """Let go of the test's loop; the thread that the app started meanwhile ends."""
    app._home.forget_loops()
    if app._home.has_thread:
        app.sync.close()
