"""Chooses which jobs are recorded of those that end in one second."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from headrace.core.messages.message import FRESH, Stream
from headrace.core.messages.outcome import Done
from headrace.engine.running.finished import FinishedRun

#: The most jobs that a worker records in one second.
MOST: Final = 50

#: A job that has ended, and when, on the store's clock.
SampledRun = tuple[FinishedRun, int]


class StreamSample:
    """The candidates of one stream: all of them while they are few, then the slowest."""

    def __init__(self) -> None:
        self._slow: list[SampledRun] = []
        self._notable: list[SampledRun] = []  # not a success at the first try
        self._floor = -1.0  # seconds; a job that was not slower is none of the slowest

    def __len__(self) -> int:
        return len(self._slow) + len(self._notable)

    def add(self, batch: list[FinishedRun], ended_us: int) -> None:
        """Successes at the first try."""
        floor = self._floor
        slow = [each for each in batch if each.seconds > floor]
        if len(slow) >= MOST:
            slow.sort(key=_seconds, reverse=True)
            del slow[MOST:]
            self._floor = slow[-1].seconds
        self._slow += [(each, ended_us) for each in slow]
        if len(self._slow) > 2 * MOST:
            self._slow = _slowest(self._slow)
            self._floor = self._slow[-1][0].seconds

    def add_notable(self, finished: FinishedRun, ended_us: int) -> None:
        if len(self._notable) < MOST:
            self._notable.append((finished, ended_us))

    def best(self, most: int) -> list[SampledRun]:
        chosen = self._notable[:most]
        room = most - len(chosen)
        return chosen + (_slowest(self._slow)[:room] if len(self._slow) > room else self._slow)


class SecondSample:
    """The candidates of a second. Streams with few of them keep all. So a flood in one queue takes nothing
    from a quiet one."""

    def __init__(self) -> None:
        self.seen = 0
        self._streams: dict[Stream, StreamSample] = {}

    def of(self, stream: Stream) -> StreamSample:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = StreamSample()
        return found

    def chosen(self, most: int) -> dict[Stream, list[SampledRun]]:
        """At most `most` jobs, by stream."""
        chosen: dict[Stream, list[SampledRun]] = {}
        by_size = sorted(self._streams.items(), key=lambda item: len(item[1]))
        for done, (stream, sample) in enumerate(by_size):
            best = sample.best(max(0, most) // (len(by_size) - done))
            most -= len(best)
            if best:
                chosen[stream] = best
        return chosen


def is_plain(finished: FinishedRun) -> bool:
    """Whether it succeeded at the first try."""
    return type(finished.outcome) is Done and finished.claim.state is FRESH


_seconds = attrgetter("seconds")


def _slowest(ended: list[SampledRun]) -> list[SampledRun]:
    return sorted(ended, key=lambda pair: pair[0].seconds, reverse=True)[:MOST]
