"""Asks a store again that cannot be reached just now: in a failover, while it restarts, before it is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

import msgspec

from headrace.core.errors import BackendUnavailable, ChangesRefused

from .service import backoff

T = TypeVar("T")

#: Seconds for which a store is asked again where the caller names no time.
PATIENCE = 10.0

Trouble: TypeAlias = Callable[[BackendUnavailable], None]


class Manner(msgspec.Struct, frozen=True):
    """How a store is asked where the caller names no time. `refusals`: also again after it refused, until
    somebody has made room there."""

    until: float | None = None  # None: each call has its own time
    trouble: Trouble | None = None
    refusals: bool = False

    def seconds(self) -> float:
        return PATIENCE if self.until is None else max(0.0, self.until - time.monotonic())

    def may_ask_again(self, error: BackendUnavailable) -> bool:
        return error.transient or (self.refusals and isinstance(error, ChangesRefused))


_USUAL = Manner()

_manner: ContextVar[Manner] = ContextVar("manner", default=_USUAL)


@contextmanager
def asking(manner: Manner) -> Iterator[None]:
    before = _manner.set(manner)
    try:
        yield
    finally:
        _manner.reset(before)


def impatience() -> AbstractContextManager[None]:
    """Whoever shows how a store is, now, has the first error told, and asks again by itself."""
    return asking(Manner(until=0.0))


async def patiently(
    ask: Callable[[], Awaitable[T]],
    *,
    within: float | None = None,
    waits: bool = False,
    trouble: Trouble | None = None,
) -> T:
    """What `ask` answers in the end. It must be repeatable, and is repeated after errors that pass by
    themselves, for `within` seconds (None: as `asking` says, or for `PATIENCE`); `trouble` is told of each of
    them.

    A try that is still under way by then is given up, unless `ask` `waits` for something on purpose: then,
    where no time was named, each outage has its own.
    """
    # Without a time of his own nobody pays for a timer: the first try is bounded by what the store allows.
    outages = waits and within is None
    bounded = within is not None and not waits
    manner = _manner.get()
    trouble = trouble or manner.trouble
    if within is None:
        within = manner.seconds()
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
            if not manner.may_ask_again(error) or now + pause > until:
                raise
            await asyncio.sleep(pause)


async def _until(until: float, ask: Callable[[], Awaitable[T]], last: BackendUnavailable | None) -> T:
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await ask()
    except TimeoutError:
        # Nobody knows what became of it.
        raise BackendUnavailable(str(last or "the store does not answer in time"), uncertain=True) from last
