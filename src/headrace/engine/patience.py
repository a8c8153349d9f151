"""Asks a store again that cannot be reached just now: in a failover, while it restarts, before it is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from headrace.core.errors import BackendUnavailable

from .service import backoff

T = TypeVar("T")

#: Seconds for which a store is asked again where the caller names no time.
PATIENCE = 10.0

_impatient: ContextVar[bool] = ContextVar("impatient", default=False)


@contextmanager
def impatience() -> Iterator[None]:
    """Whoever shows how a store is, now, has the first error told, and asks again by itself."""
    before = _impatient.set(True)
    try:
        yield
    finally:
        _impatient.reset(before)


async def patiently(
    ask: Callable[[], Awaitable[T]],
    *,
    within: float | None = None,
    waits: bool = False,
    trouble: Callable[[BackendUnavailable], None] | None = None,
) -> T:
    """What `ask` answers in the end. It must be repeatable, and is repeated after errors that pass by
    themselves, for `within` seconds (None: for `PATIENCE`); `trouble` is told of each of them.

    A try that is still under way by then is given up, unless `ask` `waits` for something on purpose: then,
    where no time was named, each outage has its own.
    """
    # Without a time of his own nobody pays for a timer: the first try is bounded by what the store allows.
    outages = waits and within is None
    bounded = within is not None and not waits
    if within is None:
        within = 0.0 if _impatient.get() else PATIENCE
    until = time.monotonic() + within
    last: BackendUnavailable | None = None
    failures = 0
    while True:
        asked_at = time.monotonic()
        try:
            return await (_until(until, ask, last) if bounded else ask())
        except BackendUnavailable as error:
            if trouble is not None:
                trouble(error)
            now = time.monotonic()
            if outages and now - asked_at > within:
                until, failures = now + within, 0
            error.uncertain = error.uncertain or (last is not None and last.uncertain)
            last, failures, bounded = error, failures + 1, not waits
            pause = backoff(failures)
            if not error.transient or now + pause > until:
                raise
            await asyncio.sleep(pause)


async def _until(until: float, ask: Callable[[], Awaitable[T]], last: BackendUnavailable | None) -> T:
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await ask()
    except TimeoutError:
        # Nobody knows what became of it.
        raise BackendUnavailable(str(last or "the store does not answer in time"), uncertain=True) from last
