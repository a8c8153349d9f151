"""Nothing is left in the store after draining, apart from dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.history import History


def check(history: History) -> Iterator[tuple[str, str]]:
    for fact in history.left:
        yield history.name_of(fact), f"left in the store: {fact.value}"
