"""Suggestions for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: How many names are listed at most.
SHOWN = 12


def unknown(noun: str, name: str, known: Iterable[str], *, owner: str = "the store") -> str:
    """`the store knows no queue 'mail'; did you mean mails?`"""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"{owner} knows no {noun} {name!r}; did you mean {' or '.join(close)}?"
    return f"{owner} knows no {noun} {name!r}; {f'it has {few(names)}' if names else 'it has none yet'}"


def few(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:SHOWN])} and {rest} more"
