"""Remembers when messages of a worker's streams are due. So promotion asks only where a message is due."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf

from headrace.core.messages.message import Stream
from headrace.core.rules.rotation import FEW, Rotation
from headrace.core.runtime.clock import SECOND

#: Seconds between two checks of streams where nothing is known to be due, in case an announcement was lost.
LOOK = 5.0

#: Seconds by which a message may be due earlier than the store said. If it is more, the store's clock moved.
STEP = 1.0


class DueTimes:
    def __init__(self) -> None:
        self._due_at: dict[Stream, float] = {}
        self._sooner: set[Stream] = set()
        self._rotation: Rotation[Stream] = Rotation()
        self._looked_at = -inf

    def announced(self, stream: Stream | None) -> None:
        """A message was scheduled that is due sooner; None: announcements may have been missed."""
        if stream is None:
            self._due_at.clear()
        else:
            self._sooner.add(stream)

    def choose(self, streams: Sequence[Stream]) -> list[Stream]:
        """The streams where a message is or may be due, and every few seconds some others. With few streams,
        all of them."""
        sooner, self._sooner = self._sooner, set()
        if len(streams) <= FEW:
            return list(streams)
        now = time.monotonic()
        chosen = [stream for stream in streams if stream in sooner or self._due_at.get(stream, -inf) <= now]
        if now >= self._looked_at + LOOK:
            self._looked_at = now
            chosen += self._rotation.some([stream for stream in streams if stream not in chosen])
        return chosen

    def forget(self, asked: Sequence[Stream]) -> None:
        """Forget the due times of streams for which the store gave no answer."""
        for stream in asked:
            self._due_at.pop(stream, None)

    def note(self, asked: Sequence[Stream], due_in_us: Mapping[Stream, int]) -> None:
        """Note the store's answer. A stream that it does not name has no delayed messages."""
        now = time.monotonic()
        for stream in asked:
            due_at = now + due_in_us.get(stream, inf) / SECOND
            if due_at < self._due_at.get(stream, -inf) - STEP and stream not in self._sooner:
                self._due_at.clear()
            self._due_at[stream] = due_at

    def seconds_left(self) -> float:
        """Seconds until the next known due time or the next check."""
        now = time.monotonic()
        soonest = min(self._due_at.values(), default=inf)
        return max(0.0, min(soonest - now, LOOK))
