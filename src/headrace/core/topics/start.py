"""Reads where a group or reader begins in a topic, as users write it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SECOND
from headrace.core.values.checks import aware_datetime

from .topic import BEGINNING, NEW, Start

#: New events only, all events that are left, from the event of that id, or from a time.
StartAt = Literal["new", "beginning"] | str | datetime


def start_of(start: object, name: str = "start") -> Start:
    """The `Start` of `new`, `beginning`, an event's id, or an aware datetime; `name` is the option's name."""
    if start == "new":
        return NEW
    if start == "beginning":
        return BEGINNING
    if isinstance(start, datetime):
        return Start("time", time_us=round(aware_datetime(name, start).timestamp() * SECOND))
    if isinstance(start, str) and start:
        return Start("event", event=start)
    raise ConfigurationError(
        f"{name} must be 'new', 'beginning', an event's id or a datetime with a time zone, not {start!r}"
    )
