"""Repeats a request to a store that cannot be reached at the moment: it restarts, fails over, or is not up
yet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

import msgspec

from headrace.core.errors import BackendUnavailable, ChangesRefused, ConfigurationError
from headrace.engine.service import backoff

T = TypeVar("T")

#: Seconds for which a request is repeated when the caller names no time.
RETRY_TIME = 10.0

#: Called with each error after which a request may be repeated.
OnError: TypeAlias = Callable[[BackendUnavailable], None]


class RetryRule(msgspec.Struct, frozen=True):
    """How requests are repeated when the caller names no time. With `refusals`, a request is also repeated
    after the store refused a change, for example because its disk is full."""

    until: float | None = None  # on the monotonic clock; None: each request has RETRY_TIME
    on_error: OnError | None = None
    refusals: bool = False

    def seconds(self) -> float:
        return RETRY_TIME if self.until is None else max(0.0, self.until - time.monotonic())

    def allows_retry(self, error: BackendUnavailable) -> bool:
        return error.transient or (self.refusals and isinstance(error, ChangesRefused))


_DEFAULT_RULE = RetryRule()

_rule: ContextVar[RetryRule] = ContextVar("retry_rule", default=_DEFAULT_RULE)


@contextmanager
def retry_rule(rule: RetryRule) -> Iterator[None]:
    """Use `rule` for every request in this context that names no time of its own."""
    before = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(before)


def without_retries() -> AbstractContextManager[None]:
    """Raise the first error. For callers that show the state of the store and ask again by themselves."""
    return retry_rule(RetryRule(until=0.0))


async def with_retries(
    ask: Callable[[], Awaitable[T]],
    *,
    within: float | None = None,
    waits: bool = False,
    on_error: OnError | None = None,
) -> T:
    """Call `ask` until it answers. The request must be repeatable: it is repeated after transient errors.

    It is repeated for `within` seconds. With None, the `retry_rule` of this context decides, and without one
    `RETRY_TIME` counts. `on_error` is called with each error. A try that is still under way at the end of
    this time is cancelled.

    `waits` says that `ask` itself waits for something that may take long. Such a try is not cancelled. When
    `within` is None, each outage then has the whole time.
    """
    # The first try gets a timer only when the caller names a time: a timer costs more than some requests, and
    # the store bounds a single request anyway.
    each_outage = waits and within is None
    bounded = within is not None and not waits
    rule = _rule.get()
    on_error = on_error or rule.on_error
    if within is None:
        within = rule.seconds()
    until = time.monotonic() + within
    last: BackendUnavailable | None = None
    failures = 0
    while True:
        asked_at = time.monotonic()
        try:
            return await (_until(until, ask, last) if bounded else ask())
        except UnicodeEncodeError as error:
            # An id or a name with half a surrogate pair, as JSON from elsewhere may hold it: no store has it.
            raise ConfigurationError(f"{error.object[:200]!r} is not text in UTF-8") from error
        except BackendUnavailable as error:
            if on_error is not None:
                on_error(error)
            now = time.monotonic()
            if each_outage and now - asked_at > within:
                until, failures = now + within, 0
            error.uncertain = error.uncertain or (last is not None and last.uncertain)
            last, failures, bounded = error, failures + 1, not waits
            pause = backoff(failures)
            if not rule.allows_retry(error) or now + pause > until:
                raise
            await asyncio.sleep(pause)


async def _until(until: float, ask: Callable[[], Awaitable[T]], last: BackendUnavailable | None) -> T:
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await ask()
    except TimeoutError:
        # The store may have carried out the request.
        raise BackendUnavailable(str(last or "the store does not answer in time"), uncertain=True) from last
