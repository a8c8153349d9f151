"""Counts done, failed and dead messages by the minute, for the last two hours. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.messages.message import Stream
from headrace.core.records.traffic import KEPT_MINUTES, MINUTE, TrafficCount, TrafficRecord

MinuteCounts = tuple[int, int, int]


class TrafficByMinute:
    def __init__(self) -> None:
        self._minutes: dict[int, dict[Stream, MinuteCounts]] = {}  # the oldest first

    def add(self, tallies: Sequence[TrafficCount], now_us: int) -> None:
        minute = now_us // MINUTE
        counts = self._minutes.setdefault(minute, {})
        for tally in tallies:
            done, failed, dead = counts.get(tally.stream, (0, 0, 0))
            counts[tally.stream] = (done + tally.done, failed + tally.failed, dead + tally.dead)
        for old in [each for each in self._minutes if each <= minute - KEPT_MINUTES]:
            del self._minutes[old]

    def records(self, minutes: int, now_us: int) -> list[TrafficRecord]:
        last = now_us // MINUTE
        window = [self._minutes.get(minute, {}) for minute in range(last - minutes + 1, last + 1)]
        streams = sorted({stream for counts in window for stream in counts}, key=lambda each: each.name)
        return [_record(stream, [counts.get(stream, (0, 0, 0)) for counts in window]) for stream in streams]


def _record(stream: Stream, counts: list[MinuteCounts]) -> TrafficRecord:
    done, failed, dead = zip(*counts, strict=True)
    return TrafficRecord(stream, done, failed, dead)
