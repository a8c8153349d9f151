"""Values as text for a page: short, harmless, relative to now. The templates escape them, too."""

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
    """The text, cut. Characters that a page does not show as they are (controls, direction marks, lone
    surrogates) are written as codes."""
    text = value if isinstance(value, str) else str(value)
    cut = text[:most]
    shown = cut if cut.isascii() and cut.isprintable() else "".join(map(_shown, cut))
    return f"{shown}… and {len(text) - most:,} characters more" if len(text) > most else shown


def brief(value: object) -> str:
    """A cleaned text in one short line."""
    return _LINES.sub(" ", clean(value, SHORT))


def data(value: Any, most: int = LONG) -> str:
    """Plain data as indented JSON."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except Exception:  # a result may have any type, and its repr may fail, too
        try:
            text = repr(value)
        except Exception as error:
            text = f"(cannot be shown: {type(error).__name__})"
    return clean(text, most)


def exact(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")


def clock_time(moment: datetime) -> str:
    """The time of day in milliseconds, for the lines of a log."""
    return moment.astimezone(UTC).time().isoformat(timespec="milliseconds")


def tone(level: str) -> str:
    """The colour of a log line of this level."""
    return {"warning": "warn", "error": "bad", "critical": "bad"}.get(level, "")


def number(value: float) -> str:
    return f"{value:,.0f}"


def problem(kind: str, message: str) -> str:
    """An error as Python writes it, with the parts that are known."""
    return ": ".join(filter(None, (kind, message)))


def share(part: float, whole: float) -> str:
    """A part of a whole in per cent. Only an empty part is 0 %."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{max(percent, 0.1):.1f} %"


def is_plain(character: str) -> bool:
    """Whether a page shows it as it is: no control, no direction mark, no lone surrogate."""
    if character in "\n\t":
        return True
    category = unicodedata.category(character)
    return category[0] != "C" or category == "Co"


def _shown(character: str) -> str:
    if is_plain(character):
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
