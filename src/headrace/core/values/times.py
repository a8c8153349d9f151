"""Reads and writes spans and times for people, in the same form in logs, in commands and on pages.

A time that names no zone is in the zone in which its reader sees times: commands pass None (the clock of the
machine), the dashboard passes UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from headrace.core.errors import ConfigurationError

from .durations import LONGEST

SPAN_FORMS: Final = "seconds, or 15m, 2h, 3d"
TIME_FORMS: Final = "15m, 2h or 3d (ago), or a time such as 2026-03-01 10:00"
START_FORMS: Final = f"new, beginning, an event's id, {TIME_FORMS}"

_SECONDS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", re.ASCII)
_EVENT_ID: Final = re.compile(r"[0-9a-z]{26}")

#: For each unit: the seconds below which a span is shown in it, its name, and its length in seconds.
_UNITS: Final = (
    (0.0009995, "µs", 1e-6),
    (0.9995, "ms", 1e-3),
    (119.5, "s", 1.0),
    (5_400.0, "min", 60.0),
    (129_600.0, "h", 3600.0),
)
_DAY: Final = ("d", 86_400.0)

#: Below this number, units of a second or more are shown with one decimal digit.
_ONE_DIGIT_BELOW: Final = 9.95


def parse_span(text: str) -> float:
    """Seconds from `90`, `250ms`, `90s`, `15m`, `2h` or `3d`."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text[:100]!r} is no span of time: write {SPAN_FORMS}")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds > LONGEST:
        raise ConfigurationError(f"{text[:100]!r} is longer than 30 years")
    return seconds


def parse_time(text: str, zone: tzinfo | None, forms: str = TIME_FORMS) -> datetime:
    """A time from `2h`, `2h ago` or `2026-03-01 10:00`. `zone` is for a time that names none; None means the
    zone of this machine. A number needs a unit: `90` may be seconds or minutes, and `2026` a year."""
    written = text.strip()
    length = _SPAN.fullmatch(written.removesuffix("ago").strip())
    try:
        if length and length[2]:
            return datetime.now(UTC) - timedelta(seconds=parse_span(length[0]))
        time = datetime.fromisoformat(written)
        return (time if time.tzinfo or zone is None else time.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        what = "has no unit" if length else "is no time"
        raise ConfigurationError(f"{text[:100]!r} {what}: write {forms} {zone or ''}".rstrip()) from None


def parse_start(text: str, zone: tzinfo | None) -> str | datetime:
    """Where a group or a reader begins in a topic: `new`, `beginning`, an event's id, or a time."""
    written = text.strip()
    if written in ("new", "beginning") or _EVENT_ID.fullmatch(written):
        return written
    return parse_time(text, zone, START_FORMS)


def span(seconds: float) -> str:
    """One number and a unit: `12 ms`, `3.4 s`, `90 s`, `2.5 min`, `25 h`, `12 d`."""
    if seconds < 5e-7:
        return "0 s"
    unit, size = next(((unit, size) for below, unit, size in _UNITS if seconds < below), _DAY)
    number = seconds / size
    digits = 1 if number < _ONE_DIGIT_BELOW and size >= 1 else 0
    return f"{number:.{digits}f}".removesuffix(".0") + f" {unit}"


def seconds_since(time: datetime | None) -> float | None:
    """Seconds since that time; 0 when it is in the future, from a clock that is a little ahead."""
    return None if time is None else max(0.0, (datetime.now(UTC) - time).total_seconds())


def age_text(time: datetime | None) -> str:
    """The time since then, such as `5 min`; empty for None."""
    seconds = seconds_since(time)
    return "" if seconds is None else span(seconds)


def ago(time: datetime | None, now: datetime | None = None) -> str:
    """`5 min ago`, `in 5 min`, or `now` for less than a second; empty for None."""
    if time is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
