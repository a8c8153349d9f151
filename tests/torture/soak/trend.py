"""Whether a figure grows: medians of a minute, and the median of the slopes between them. Single peaks, and a
machine that is busy with other things, hardly move it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple

MINUTE: Final = 60.0
HOUR: Final = 3600.0


class Point(NamedTuple):
    """A figure at a time in seconds."""

    at: float
    value: float


def by_the_minute(points: Iterable[Point]) -> list[Point]:
    """The median of each minute."""
    minutes: dict[int, list[float]] = defaultdict(list)
    for point in points:
        minutes[int(point.at // MINUTE)].append(point.value)
    return [Point((minute + 0.5) * MINUTE, median(values)) for minute, values in sorted(minutes.items())]


def slope(points: Iterable[Point]) -> float:
    """By how much it grows in an hour: the median over all pairs (Theil and Sen)."""
    found = [
        (second.value - first.value) / (second.at - first.at) * HOUR
        for first, second in combinations(by_the_minute(points), 2)
    ]
    return median(found) if found else 0.0


def leaks(points: list[Point]) -> bool:
    """Whether a number that goes up and down has grown: the least of the last quarter is above the most of
    the first."""
    quarter = len(points) // 4
    if not quarter:
        return False
    return min(point.value for point in points[-quarter:]) > max(point.value for point in points[:quarter])
