"""Values as text for a page: short, harmless, relative to now. Everything is escaped by the templates too."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

#: Characters shown of a text before it is cut.
SHORT: Final = 200
LONG: Final = 20_000

_LINES = re.compile(r"[\n\t]")


def clean(value: object, most: int = LONG) -> str:
    """The text, cut, with whatever would not be shown as it is (controls, direction marks, halves of
    characters) written as a code."""
    text = value if isinstance(value, str) else str(value)
    cut = text[:most]
    shown = "".join(each if _is_plain(each) else _coded(each) for each in cut)
    return f"{shown}… and {len(text) - most:,} characters more" if len(text) > most else shown


def brief(value: object) -> str:
    """The same in one short line."""
    return clean(_LINES.sub(" ", value if isinstance(value, str) else str(value)), SHORT)


def data(value: Any, most: int = LONG) -> str:
    """Plain data as a person reads it."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except Exception:
        text = repr(value)
    return clean(text, most)


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return "–"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    said = span(abs(seconds))
    if abs(seconds) < 1:
        return "now"
    return f"{said} ago" if seconds > 0 else f"in {said}"


def span(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = {"d": (3600, "h"), "h": (60, "min"), "min": (1, "s")}[unit]
            more = int(rest // smaller[0])
            return f"{int(whole)} {unit} {more} {smaller[1]}" if more else f"{int(whole)} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def exact(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")


def number(value: float) -> str:
    return f"{value:,.0f}"


def _is_plain(character: str) -> bool:
    if character in "\n\t":
        return True
    category = unicodedata.category(character)
    return category[0] != "C" or category == "Co"


def _coded(character: str) -> str:
    return f"\\u{ord(character):04x}"
