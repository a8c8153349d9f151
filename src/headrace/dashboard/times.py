"""Moments as people write them: `2h` (ago), or `2026-03-01 10:00`, in UTC where no zone is named."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.core.errors import ConfigurationError

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|min|m|h|d)(?:\s+ago)?")
_ID = re.compile(r"[0-9a-z]{26}")

FORMS = "15min, 2h or 3d (ago), or a time such as 2026-03-01 10:00"


def moment_of(text: str) -> datetime:
    text = text.strip()
    found = _SPAN.fullmatch(text)
    try:
        if found is not None:
            return datetime.now(UTC) - timedelta(seconds=float(found[1]) * _UNITS[found[2]])
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{text[:100]!r} is no time: write {FORMS}") from None


def start_of(text: str) -> str | datetime:
    """Where a group begins to read again: `new`, `beginning`, an event's id, or a moment."""
    text = text.strip()
    return text if text in ("new", "beginning") or _ID.fullmatch(text) else moment_of(text)
