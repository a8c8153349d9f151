"""Checks spans of time that users write: seconds or a timedelta."""

from __future__ import annotations

from datetime import timedelta

from headrace.core.errors import ConfigurationError

from .whole_numbers import shown

Duration = float | timedelta

#: About 31 years. A longer span is a mistake, and in microseconds this one is far below 63 bits.
LONGEST = 1e9


def seconds(name: str, value: object) -> float:
    """`value` as seconds, 0 or more; anything else is a `ConfigurationError` that names the option."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST:
        return float(value)
    raise ConfigurationError(
        f"{name} must be seconds or a timedelta, from 0 to {LONGEST:,.0f} seconds (31 years), "
        f"not {shown(value)}"
    )


def positive_seconds(name: str, value: object, *, least: float = 0.0) -> float:
    """Like `seconds`, but more than zero and at least `least`."""
    result = seconds(name, value)
    if result == 0:
        raise ConfigurationError(f"{name} must be more than 0 seconds, and {LONGEST:,.0f} at most")
    if result < least:
        raise ConfigurationError(f"{name} must be {least:g} seconds or more, not {result:g}")
    return result
