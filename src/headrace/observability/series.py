"""Counters and histograms that cost a job very little: a dictionary and a few additions.

The counters of prometheus_client lock and check at every step, which is slow on the path of a job. Here only
the app's event loop counts, and a scrape turns the counts into metric families.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]

#: Seconds: from a millisecond to an hour.
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

_BOUNDS = [*map(floatToGoString, BUCKETS), "+Inf"]


class Counter:
    """A number for each set of label values. It only grows."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._values: dict[Labels, int] = {}

    def add(self, labels: Labels, count: int = 1) -> None:
        values = self._values
        values[labels] = values.get(labels, 0) + count

    def family(self) -> Metric:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values.copy().items():
            family.add_metric(labels, value)
        return family


class Histogram:
    """A distribution of seconds for each set of label values."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._series: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        counts = self._series.get(labels)
        if counts is None:
            self._sums[labels] = 0.0
            counts = self._series[labels] = [0] * len(_BOUNDS)
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[labels] += seconds

    def family(self) -> Metric:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, counts in self._series.copy().items():
            buckets = list(zip(_BOUNDS, accumulate(counts.copy()), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        return family
