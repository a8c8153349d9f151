"""Checks when a schedule is to fire, as users write it."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import msgspec

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SECOND, microseconds
from headrace.core.schedules.schedule import SHORTEST_US, CatchUp, Timing, check_timing
from headrace.core.values.checks import due_moment
from headrace.core.values.durations import Duration, positive_seconds, seconds


def timing_of(
    cron: str | None, every: Duration | None, tz: str | None, catch_up: CatchUp, jitter: Duration
) -> Timing:
    """The checked timing of a schedule."""
    if (cron is None) == (every is None):
        raise ConfigurationError("a schedule takes either cron= or every=")
    if catch_up not in get_args(CatchUp):
        raise ConfigurationError(f"catch_up must be 'skip', 'one' or 'all', not {catch_up!r}")
    jitter_us = microseconds(seconds("jitter", jitter))
    if every is not None:
        if tz is not None:
            raise ConfigurationError("tz= goes with cron=; an interval has no time zone")
        text: object = every
        if isinstance(text, str) and ("@" in text or " " in text):
            raise ConfigurationError(f"every must be seconds or a timedelta; {text!r} goes with cron")
        interval = positive_seconds("every", every)
        if microseconds(interval) < SHORTEST_US:
            raise ConfigurationError(f"every must be at least {SHORTEST_US / SECOND} seconds, not {every!r}")
        return Timing(every_us=microseconds(interval), catch_up=catch_up, jitter_us=jitter_us)
    given: object = cron
    zone: object = "UTC" if tz is None else tz
    if not isinstance(given, str) or not isinstance(zone, str):
        raise ConfigurationError(
            f"cron and tz are texts such as '0 9 * * *' and 'UTC', not {given!r}, {zone!r}"
        )
    timing = Timing(cron=given, tz=zone, catch_up=catch_up, jitter_us=jitter_us)
    check_timing(timing)
    return timing


def bounded(timing: Timing, starts: datetime | None, ends: datetime | None) -> Timing:
    """The timing within these bounds."""
    starts_us = 0 if starts is None else _moment_us("starts", starts)
    ends_us = 0 if ends is None else _moment_us("ends", ends)
    if 0 < ends_us < starts_us:
        raise ConfigurationError(f"ends={ends} is before starts={starts}: the schedule would never fire")
    return msgspec.structs.replace(timing, starts_us=starts_us, ends_us=ends_us)


def _moment_us(option: str, value: object) -> int:
    at = due_moment(option, value)
    if at.timestamp() < 1:
        raise ConfigurationError(f"{option} must be after 1970, not {value!r}")
    return round(at.timestamp() * SECOND)
