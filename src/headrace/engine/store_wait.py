"""How a worker that starts waits for its store: one that is away, or that takes no changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.errors import BackendUnavailable
from headrace.core.signals import BackendError

from .emitter import Emitter
from .patience import Manner, asking

#: Seconds that a worker waits for its store when it starts, and between two times that it says so.
START_PATIENCE, SAY_EVERY = 60.0, 3.0


@contextmanager
def waiting_for_store(emitter: Emitter) -> Iterator[None]:
    """Whatever is asked of the store here is asked again, for `START_PATIENCE` altogether; it is said why."""
    until = time.monotonic() + START_PATIENCE
    said_at: float | None = None

    def say(error: BackendUnavailable) -> None:
        nonlocal said_at
        now = time.monotonic()
        if manner.may_ask_again(error) and (said_at is None or now - said_at >= SAY_EVERY):
            said_at = now
            emitter.emit(BackendError(service="start", error=str(error), delay=max(0.0, until - now)))

    manner = Manner(until, say, refusals=True)
    try:
        with asking(manner):
            yield
    except BackendUnavailable as error:
        if said_at is not None:
            error.args = (f"{error}; the worker has waited for its store for {START_PATIENCE:g} s",)
        raise
