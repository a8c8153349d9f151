"""Values of a label, no more than a few hundred: a time series for each would be the end of a Prometheus."""

from __future__ import annotations

#: What the rest goes under.
OTHER = "other"

#: Distinct values of one label.
MOST = 100


class Bounded:
    """The first so many values are themselves, all later ones are `other`."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) < self._most:
            self._known.add(value)
            return value
        return OTHER
