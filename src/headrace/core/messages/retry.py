"""Decides whether and when a failed run is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, get_args

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.values.bounds import Count, Seconds
from headrace.core.values.durations import Duration, seconds
from headrace.core.values.whole_numbers import shown, whole_number

#: On the decorator a policy may be any function of (failures, error) that gives a delay, or None to give up.
RetryFunction = Callable[[int, BaseException], float | timedelta | None]


Kind = Literal["none", "fixed", "exponential"]


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True):
    """How often and how soon a failed run is retried. `max_retries` does not count the first run."""

    kind: Kind
    max_retries: Count = 0
    base: Seconds = 0.0
    cap: Seconds = 600.0
    jitter: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigurationError(f"kind must be one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        whole_number("max_retries", self.max_retries, least=0)
        if not isinstance(self.jitter, bool):
            raise ConfigurationError(f"jitter must be True or False, not {shown(self.jitter)}")
        msgspec.structs.force_setattr(self, "base", seconds("base", self.base))
        msgspec.structs.force_setattr(self, "cap", seconds("cap", self.cap))

    @classmethod
    def none(cls) -> RetryPolicy:
        """A failure is final."""
        return cls("none")

    @classmethod
    def fixed(cls, max_retries: int, delay: Duration) -> RetryPolicy:
        """Retry `max_retries` times, always after `delay`."""
        base = seconds("delay", delay)
        return cls("fixed", max_retries, base, cap=base)

    @classmethod
    def exponential(
        cls, max_retries: int, base: Duration, cap: Duration = 600, jitter: bool = True
    ) -> RetryPolicy:
        """Retry after base, 2·base, 4·base … up to `cap`; with jitter a random time from 0 to that."""
        return cls("exponential", max_retries, seconds("base", base), seconds("cap", cap), jitter)

    def delay(self, failures: int, error: BaseException | None = None) -> float | None:
        """Seconds until the next try after this many failures, or None when there is none."""
        if failures > self.max_retries:
            return None
        if self.kind == "fixed":
            return self.base
        # 2**1000 no longer fits a float; the cap has long been reached by then.
        ceiling = min(self.cap, self.base * 2.0 ** min(failures - 1, 200))
        return random.uniform(0, ceiling) if self.jitter else ceiling  # nosec B311 # jitter


def checked_retry(value: object) -> RetryPolicy | RetryFunction:
    """`value` as a policy for a task or an app; anything else is a `ConfigurationError`."""
    if isinstance(value, RetryPolicy) or callable(value):
        return value
    raise ConfigurationError(f"retry must be a RetryPolicy or a function (failures, error), not {value!r}")


#: The policy of a task when neither the task nor the app names one.
DEFAULT_RETRY = RetryPolicy.exponential(3, 1.0)
