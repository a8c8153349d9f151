"""Decides whether and when a failed run is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Literal, get_args

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.values.bounds import Count, Seconds
from headrace.core.values.durations import Duration, seconds
from headrace.core.values.whole_numbers import shown, whole_number

from .directives import RetryLater
from .error_kinds import ErrorTypes, kinds_of, named_kinds

#: On the decorator a policy may be any function of (failures, error) that gives a delay, or None to give up.
RetryFunction = Callable[[int, BaseException], float | timedelta | None]


Kind = Literal["none", "fixed", "exponential"]

#: The largest factor of a policy: a larger one is a mistake.
LARGEST_FACTOR = 1000.0


class RetryPolicy(msgspec.Struct, frozen=True, array_like=True):
    """How often and how soon a failed run is retried. Made by `RetryPolicy.none()`, `.fixed(...)` or
    `.exponential(...)`.

    - `kind`: `"none"`, `"fixed"` or `"exponential"`
    - `max_retries`: how many retries; the first run is not a retry
    - `base`: seconds before the first retry
    - `cap`: the longest delay in seconds
    - `jitter`: whether, or by how many seconds, delays are random
    - `factor`: how much longer each delay is than the one before
    - `on`: the names of the classes that are retried; None: all. A policy can be stored with a job because it
      holds names
    - `give_up_on`: the names of the classes that are never retried
    """

    kind: Kind
    max_retries: Count = 0
    base: Seconds = 0.0
    cap: Seconds = 600.0
    jitter: bool | Seconds = False
    factor: Annotated[float, msgspec.Meta(ge=1, le=LARGEST_FACTOR)] = 2.0
    on: tuple[str, ...] | None = None
    give_up_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigurationError(f"kind must be one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        whole_number("max_retries", self.max_retries, least=0)
        msgspec.structs.force_setattr(self, "base", seconds("base", self.base))
        msgspec.structs.force_setattr(self, "cap", seconds("cap", self.cap))
        msgspec.structs.force_setattr(self, "jitter", _jitter(self.jitter))
        msgspec.structs.force_setattr(self, "factor", _factor(self.factor))

    @classmethod
    def none(cls) -> RetryPolicy:
        """A failure is final."""
        return cls("none")

    @classmethod
    def fixed(
        cls,
        max_retries: int,
        delay: Duration,
        *,
        on: ErrorTypes | None = None,
        give_up_on: ErrorTypes = (),
    ) -> RetryPolicy:
        """Retry after the same delay each time.

        - `max_retries`: how many retries; the first run is not a retry
        - `delay`: seconds before each retry
        - `on`: a class of exceptions, or several; only these and their subclasses are retried. None: all are
        - `give_up_on`: a class of exceptions, or several, that are never retried, even if `on` names them
        """
        base = seconds("delay", delay)
        policy = cls("fixed", max_retries, base, cap=base)
        return policy._only(on, give_up_on)

    @classmethod
    def exponential(
        cls,
        max_retries: int,
        base: Duration = 1.0,
        cap: Duration = 600,
        factor: float = 2.0,
        jitter: bool | Duration = True,
        on: ErrorTypes | None = None,
        give_up_on: ErrorTypes = (),
    ) -> RetryPolicy:
        """Retry after `base`, `base · factor`, `base · factor²` … seconds, up to `cap`.

        - `max_retries`: how many retries; the first run is not a retry
        - `base`: seconds before the first retry
        - `cap`: the longest delay in seconds
        - `factor`: how much longer each delay is than the one before, from 1 to 1000
        - `jitter`: True: a random time from 0 to the delay. False: the delay itself. Seconds:
          the delay and a random time of at most so many seconds more
        - `on`: a class of exceptions, or several; only these and their subclasses are retried. None: all
          are
        - `give_up_on`: a class of exceptions, or several, that are never retried, even if `on` names them
        """
        delays = seconds("base", base), seconds("cap", cap), _jitter(jitter)
        policy = cls("exponential", max_retries, *delays, factor)
        return policy._only(on, give_up_on)

    def delay(self, failures: int, error: BaseException | None = None) -> float | None:
        """Seconds until the next try after this many failures, or None when there is none."""
        if failures > self.max_retries or (error is not None and self.gives_up(error)):
            return None
        if self.kind == "fixed":
            return self.base
        longest = self._longest(failures)
        if self.jitter is True:
            return random.uniform(0, longest)  # nosec B311 # jitter
        return longest + random.uniform(0, self.jitter) if self.jitter else longest  # nosec B311 # jitter

    def gives_up(self, error: BaseException) -> bool:
        """Whether the policy never retries this error. A handler that raises `RetryLater` is retried
        always."""
        if (self.on is None and not self.give_up_on) or isinstance(error, RetryLater):
            return False
        kinds = kinds_of(error)
        wanted = self.on is None or not set(self.on).isdisjoint(kinds)
        return not wanted or not set(self.give_up_on).isdisjoint(kinds)

    def _longest(self, failures: int) -> float:
        try:
            return min(self.cap, self.base * self.factor ** (failures - 1))
        except OverflowError:  # the cap has long been reached by then
            return self.cap if self.base else 0.0

    def _only(self, on: ErrorTypes | None, give_up_on: ErrorTypes) -> RetryPolicy:
        """The policy for these kinds of errors."""
        wanted = None if on is None else named_kinds("on", on)
        if wanted == ():
            raise ConfigurationError("on=() retries no error at all: write RetryPolicy.none() instead")
        unwanted = named_kinds("give_up_on", give_up_on)
        if wanted is None and not unwanted:
            return self
        return msgspec.structs.replace(self, on=wanted, give_up_on=unwanted)


def checked_retry(value: object) -> RetryPolicy | RetryFunction:
    """`value` as a policy for a task or an app; anything else is a `ConfigurationError`."""
    if isinstance(value, RetryPolicy) or callable(value):
        return value
    raise ConfigurationError(f"retry must be a RetryPolicy or a function (failures, error), not {value!r}")


def _jitter(value: object) -> bool | float:
    if isinstance(value, bool):
        return value
    try:
        return seconds("jitter", value)
    except ConfigurationError:
        raise ConfigurationError(f"jitter must be True or False, or seconds, not {shown(value)}") from None


def _factor(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LARGEST_FACTOR:
        return float(value)
    raise ConfigurationError(f"factor must be a number from 1 to {LARGEST_FACTOR:g}, not {shown(value)}")


#: The policy of a task when neither the task nor the app names one.
DEFAULT_RETRY = RetryPolicy.exponential(3, 1.0)
