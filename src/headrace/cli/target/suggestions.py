"""Suggestions for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: How many names are listed at most.
SHOWN = 12


def unknown(noun: str, name: str, known: Iterable[str], *, owner: str = "the store") -> str:
    """`the store knows no queue 'mail'; did you mean mails?`"""
    names = sorted(known)
    if close := _close(name, names):
        hint = f"did you mean {' or '.join(close)}?"
    elif names:
        rest = len(names) - SHOWN
        hint = f"it has {', '.join(names[:SHOWN])}{f' and {rest} more' if rest > 0 else ''}"
    else:
        hint = "it has none yet"
    return f"{owner} knows no {noun} {name!r}; {hint}"


def _close(name: str, known: list[str]) -> list[str]:
    """Names that are nearly this one, whole or in their last part."""
    parts = [(part, each) for each in known for part in (each, each.rpartition(".")[2])]
    near = difflib.get_close_matches(name, [part for part, _ in parts], n=5)
    return list(dict.fromkeys(each for part, each in parts if part in near))
