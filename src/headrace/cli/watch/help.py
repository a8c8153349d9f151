"""What the keys do, and what the columns mean."""

from __future__ import annotations

import textwrap
from typing import Final

from rich.text import Text

#: Columns for a key or a word.
NAME: Final = 11

_KEYS: Final = (
    ("↑ ↓  k j", "select the queue or group above or below; page up, page down, home, end"),
    ("p", "pause it, or let it go on; what runs goes on either way"),
    ("r", "run its dead letters again, after asking (y)"),
    ("?", "this page"),
    ("q  Esc", "quit, as does Ctrl-C; Ctrl-Z stops it until fg"),
)

_WORDS: Final = (
    ("waiting", "jobs that are ready; of a group its lag: events nobody has begun to handle"),
    ("scheduled", "jobs that are due later; retrying are due again after a failure"),
    ("dead", "will not run again by themselves: headrace dead lists them"),
    ("oldest", "for how long the first of those waiting has waited"),
    ("done/s", "over the last minute; failed/s counts failures that are tried again too"),
    ("last hour", "done and failed, a bar for each minute or for a few, the latest on the right"),
)


def help_lines(width: int) -> list[Text]:
    """Keys first: on a short terminal the rest is cut."""
    lines = [Text()]
    for part in (_KEYS, _WORDS):
        for name, text in part:
            first, *rest = textwrap.wrap(text, max(20, width - NAME)) or [""]
            lines.append(Text(name.ljust(NAME), style="bold").append(first, "not bold"))
            lines += [Text(" " * NAME + each) for each in rest]
        lines.append(Text())
    return lines
