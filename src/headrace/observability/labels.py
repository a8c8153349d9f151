"""Labels with a bounded number of values: each value is a time series, and Prometheus has room for few."""

from __future__ import annotations

#: The value for all others.
OTHER = "other"

#: Distinct values of one label.
MOST = 100


class BoundedLabel:
    """The first `most` values stay as they are. All later values become `other`."""

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
