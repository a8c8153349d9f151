"""Where to begin in a topic, as people write it at a terminal."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from headrace.cli.output.span import span

FORMS = "new, beginning, an event's id, a span such as 2h (ago), or a time such as 2026-03-01T10:00"

_SPAN = re.compile(r"[\d.]+\s*[a-z]{0,3}")
_ID = re.compile(r"[0-9a-z]{26}")


def start(text: str) -> str | datetime:
    """The type of `--since` and `--to`. A time without a zone is on the reader's own clock."""
    if text in ("new", "beginning") or _ID.fullmatch(text):
        return text
    if _SPAN.fullmatch(text):
        return datetime.now(UTC) - timedelta(seconds=span(text))
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise click.BadParameter(f"{text!r} is no start: write {FORMS}") from None
