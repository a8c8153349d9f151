"""Remembers when messages of a worker's streams are due. So promotion asks only where a message is due."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from headrace.core.messages.message import Stream
from headrace.core.rules.rotation import FEW, Rotation
from headrace.core.runtime.clock import SECOND

#: Seconds between two checks of streams where nothing is known to be due, in case an announcement was lost.
LOOK = 5.0

#: Seconds by which a message may be due earlier than the store said. If it is more, the store's clock moved.
STEP = 1.0

#: After so many times in a row at which another worker was faster, that worker has the turn. Once is not
#: enough: a worker may come a little early.
MISSED = 2

#: Seconds after a due time, at least and at most, at which a worker without the turn asks. Otherwise each
#: message that becomes due would cost a request of every worker.
PATIENCE = (0.4, 1.0)

#: Seconds by which a worker without the turn may wait longer, for each further time at which it was late, and
#: the most that it waits. While messages become due all the time, 300 workers then ask 140 times a second,
#: and no longer 430 times. When the worker with the turn dies, the first of them asks after half a second.
LONGER, LONGEST = 0.3, 4.0


class DueTimes:
    """One worker asks at the due times of a stream, the others a little later. They take over when it is
    gone."""

    def __init__(self) -> None:
        self._due_at: dict[Stream, float] = {}
        self._was_due: set[Stream] = set()  # of those that were chosen
        self._was_announced: set[Stream] = set()
        self._missed: Counter[Stream] = Counter()
        self._promotions: dict[Stream, int] = {}
        self._patience: dict[Stream, float] = {}
        self._sooner: dict[Stream, float] = {}  # when to ask because of an announcement
        self._rotation: Rotation[Stream] = Rotation()
        self._looked_at = -inf

    def announced(self, stream: Stream | None) -> None:
        """A message was scheduled that is due sooner; None: announcements may have been missed. A worker
        without the turn does not ask at once."""
        if stream is None:
            self._due_at.clear()
        else:
            self._sooner.setdefault(stream, time.monotonic() + self._patience.get(stream, 0.0))

    def choose(self, streams: Sequence[Stream]) -> list[Stream]:
        """The streams where a message is or may be due, and every few seconds some others. With few streams
        all of them, or none when this worker was only woken by an announcement that can wait."""
        now = time.monotonic()
        self._was_due = {stream for stream, due_at in self._due_at.items() if due_at <= now}
        self._was_announced = {stream for stream, ask_at in self._sooner.items() if ask_at <= now}
        chosen = [stream for stream in streams if self._asked_at(stream) <= now]
        for stream in self._was_announced:
            del self._sooner[stream]
        if len(streams) <= FEW:
            return list(streams) if chosen or self._was_announced or not self._sooner else []
        if now >= self._looked_at + LOOK:
            self._looked_at = now
            chosen += self._rotation.some([stream for stream in streams if stream not in chosen])
        return chosen

    def forget(self, asked: Sequence[Stream]) -> None:
        """Forget the due times of streams for which the store gave no answer."""
        for stream in asked:
            self._due_at.pop(stream, None)
            self._sooner.pop(stream, None)

    def note(
        self,
        asked: Sequence[Stream],
        due_in_us: Mapping[Stream, int],
        *,
        promoted: int,
        promotions: Mapping[Stream, int] | None = None,
    ) -> None:
        """Note the store's answer. A stream that `due_in_us` does not name has no delayed messages. When
        nothing was promoted where something was due, another worker was faster; but not if the number of all
        `promotions` is the same as before: then the message was cancelled, or is due later now."""
        now = time.monotonic()
        promotions = promotions or {}
        for stream in (self._was_due | self._was_announced).intersection(asked):
            if promoted:
                self._missed[stream] = 0
            elif stream in self._was_due and self._were_others_faster(stream, promotions):
                self._missed[stream] += 1
        self._promotions.update(promotions)
        self._patience = {
            stream: random.uniform(PATIENCE[0], _most_patience(missed))  # nosec B311 # jitter
            for stream, missed in self._missed.items()
            if missed >= MISSED
        }
        for stream in asked:
            due_at = now + due_in_us.get(stream, inf) / SECOND
            if due_at < self._due_at.get(stream, -inf) - STEP and stream not in self._sooner:
                self._due_at.clear()
            self._due_at[stream] = due_at

    def seconds_left(self) -> float:
        """Seconds until the next known due time or the next check."""
        now = time.monotonic()
        soonest = min([*map(self._asked_at, self._due_at), *self._sooner.values()], default=inf)
        return max(0.0, min(soonest - now, LOOK))

    def _were_others_faster(self, stream: Stream, promotions: Mapping[Stream, int]) -> bool:
        return stream not in promotions or promotions[stream] != self._promotions.get(stream)

    def _asked_at(self, stream: Stream) -> float:
        """When to ask for a stream: at once if its due time is unknown."""
        at_due_time = self._due_at.get(stream, -inf) + self._patience.get(stream, 0.0)
        return min(at_due_time, self._sooner.get(stream, inf))


def _most_patience(missed: int) -> float:
    return min(LONGEST, PATIENCE[1] + LONGER * (missed - MISSED))
