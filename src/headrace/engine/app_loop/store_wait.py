"""How a worker that starts waits for a store that cannot be reached, or that refuses changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.errors import BackendUnavailable
from headrace.core.signals import BackendError
from headrace.engine.emitter import Emitter

from .retrying import RetryRule, retry_rule

#: Seconds for which a starting worker waits for its store, and seconds between two signals about this.
START_TIME, SIGNAL_EVERY = 60.0, 3.0


@contextmanager
def waiting_for_store(emitter: Emitter) -> Iterator[None]:
    """Repeat requests to the store in this block for `START_TIME` in all, and emit `BackendError`
    meanwhile."""
    until = time.monotonic() + START_TIME
    signalled_at: float | None = None

    def signal(error: BackendUnavailable) -> None:
        nonlocal signalled_at
        now = time.monotonic()
        if rule.allows_retry(error) and (signalled_at is None or now - signalled_at >= SIGNAL_EVERY):
            signalled_at = now
            emitter.emit(BackendError(service="start", error=str(error), delay=max(0.0, until - now)))

    rule = RetryRule(until, signal, refusals=True)
    try:
        with retry_rule(rule):
            yield
    except BackendUnavailable as error:
        if signalled_at is not None:
            error.args = (f"{error}; the worker has waited for its store for {START_TIME:g} s",)
        raise
