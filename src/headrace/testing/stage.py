"""Puts an app on another store for a while: here alone is known which of its parts hold store and clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from headrace.app import App
from headrace.core.backend import Backend
from headrace.core.clock import Clock
from headrace.core.errors import ConfigurationError
from headrace.engine.producer import Producer
from headrace.engine.registry import Middleware

T = TypeVar("T")


@contextmanager
def staged(app: App, backend: Backend, clock: Clock, attend: Middleware) -> Iterator[None]:
    """Let `app` stand on `backend` and tell the time by `clock`, with `attend` around every run. Its own
    store is neither opened nor touched meanwhile, and is back afterwards."""
    _check_unused(app)
    home, jobs, events = app._home, app._jobs, app._events
    home._abandon()  # what a loop that is gone left behind
    # A producer of its own: what is still on its way when the test ends must never reach the real store.
    producer = Producer(backend)
    with ExitStack() as undo:
        undo.enter_context(replaced(home, backend=backend, _left_open=False))
        undo.enter_context(replaced(jobs, _producer=producer))
        undo.enter_context(replaced(jobs._letters, _now_us=clock.now_us))
        undo.enter_context(replaced(events, _producer=producer, _clock=clock, _arranged=set()))
        for topic in events.topics.values():
            undo.enter_context(replaced(topic._letters, _now_us=clock.now_us))
        undo.enter_context(replaced(app, _clock=clock))
        undo.enter_context(_first_in(home._closers, producer.close))
        undo.enter_context(_first_in(home._forgetters, producer.forget))
        undo.enter_context(_first_in(app._registry._middleware, attend))
        undo.callback(_vacate, app, threaded=_has_thread(app))
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
    home = app._home
    in_use = home._open or home._closing or home._opening is not None
    if in_use and home.loop is not None and home.loop.is_running():
        raise ConfigurationError(
            f"{app!r} is open: begin before it is first used, or close it first, with `await app.close()` "
            "or `app.sync.close()`"
        )


def _has_thread(app: App) -> bool:
    return app.sync._portal._own is not None


def _vacate(app: App, *, threaded: bool) -> None:
    """Let go of the loop; a thread that `app.sync` started meanwhile ends."""
    home = app._home
    if home.loop is not app.sync._portal._own:
        home._abandon()
    if _has_thread(app) and not threaded:
        app.sync.close()
    home._abandon()
