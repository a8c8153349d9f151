"""Spans of time as people write and read them at a terminal."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from headrace.core.duration import LONGEST

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)")


def span(text: str) -> float:
    """Seconds from `90`, `90s`, `15m`, `2h` or `3d`; the type of an option."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no span of time: write seconds, or 15m, 2h, 3d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > LONGEST:
        raise click.BadParameter(f"{text!r} is longer than 30 years")
    return seconds


def spoken(seconds: float) -> str:
    """A span in one or two digits and a unit: what a person wants of an age."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 129600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def age(moment: datetime | None) -> float | None:
    """Seconds since then; a clock that is a little ahead of ours gives 0."""
    return None if moment is None else max(0.0, (datetime.now(UTC) - moment).total_seconds())


def ago(moment: datetime | None) -> str:
    """How long ago that was, or how far ahead it is."""
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    return f"in {spoken(-seconds)}" if seconds < -0.5 else f"{spoken(max(0.0, seconds))} ago"
