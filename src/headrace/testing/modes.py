"""How an app is made fit for a test: on a store of its own, or running its jobs where they are enqueued."""

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

    Whatever it enqueues or runs meanwhile stays in there. The app must not be open when this begins.
    """
    if app in _kits:
        raise ConfigurationError(f"{app!r} stands on a test's store already; use the kit that memory() gave")
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
    ):
        _kits[app] = kit
        try:
            yield kit
        finally:
            _kits.pop(app, None)
            _leave_loops(app)


@contextmanager
def run_inline(app: App, *, raise_errors: bool = True) -> Iterator[Kit]:
    """Let `enqueue` run the job at once and return when it is over: `with run_inline(app):`.

    A delay is left out, a retry follows at once, and what the job raises in the end is raised by `enqueue`
    (with `raise_errors=False` by `job.result()` alone). In memory, as by `memory(app)`, of which an outer one
    is used.
    """
    with ExitStack() as stack:
        kit = _kits.get(app) or stack.enter_context(memory(app))
        stack.enter_context(inline(kit, raise_errors=raise_errors))
        yield kit


def _leave_loops(app: App) -> None:
    """Let go of the test's event loops. The thread that the app started meanwhile ends."""
    app._app_loop.forget_loops()
    if app._app_loop.has_thread:
        app.sync.close()


def kit_of(app: App) -> Kit | None:
    """The kit of an app that stands on a test's store now."""
    return _kits.get(app)
