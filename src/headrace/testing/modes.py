"""Prepares an app for a test: on a private store, or so that jobs run where they are enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

from headrace.app import App
from headrace.core.errors import ConfigurationError

from .clock import Clock
from .inline import inline
from .kit import Kit
from .store import KitRouter

_kits: WeakKeyDictionary[App, Kit] = WeakKeyDictionary()


@contextmanager
def memory(app: App, *, clock: Clock | None = None) -> Iterator[Kit]:
    """Give `app` a private memory store and a movable clock: `with memory(app) as kit:`.

    During the block the app uses only this store. The app must not be open when the block begins.
    """
    if app in _kits:
        raise ConfigurationError(f"{app!r} is on the store of a test already; use the kit that memory() gave")
    if app._app_loop.in_use:
        raise ConfigurationError(
            f"{app!r} is open: begin before it is first used, or close it first, with `await app.close()` "
            "or `app.sync.close()`"
        )
    clock = clock or Clock()
    kit = Kit(app, clock)
    with (
        clock._followed_by(kit._store),
        app._app_loop.swapped(KitRouter(kit._store), clock),
        app._registry.wrapped_by(kit._attend),
        kit._direct_calls.watched(),
        _without_outbox(app),
    ):
        _kits[app] = kit
        try:
            yield kit
        finally:
            _kits.pop(app, None)
            _leave_loops(app)


@contextmanager
def _without_outbox(app: App) -> Iterator[None]:
    """Relay nothing: the rows of the app's own outbox do not belong to the test."""
    outbox, app._outbox = app._outbox, None
    try:
        yield
    finally:
        app._outbox = outbox


@contextmanager
def run_inline(app: App, *, raise_errors: bool = True) -> Iterator[Kit]:
    """Make `enqueue` run the job at once and return when it is over: `with run_inline(app):`.

    A delay is left out, and a retry follows at once. `enqueue` raises the final error of the job; with
    `raise_errors=False` only `job.result()` does. The app is on a memory store as with `memory(app)`; inside
    a block of `memory(app)` it uses that one.
    """
    with ExitStack() as stack:
        kit = _kits.get(app) or stack.enter_context(memory(app))
        stack.enter_context(inline(kit, raise_errors=raise_errors))
        yield kit


def _leave_loops(app: App) -> None:
    """Release the event loops of the test. The thread that the app started during the test ends."""
    app._app_loop.forget_loops()
    if app._app_loop.has_thread:
        app.sync.close()


def kit_of(app: App) -> Kit | None:
    """The kit of an app that is on the store of a test now."""
    return _kits.get(app)
