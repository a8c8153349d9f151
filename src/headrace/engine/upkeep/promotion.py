"""Makes delayed messages claimable when their time has come."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SECOND
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

from .due_times import DueTimes

#: Messages moved in one step of the store.
PROMOTE_BATCH = 200

#: The longest sleep, in seconds. Promotion sleeps until the next due time, but an announcement may be lost.
PROMOTE_FALLBACK = 5.0


class Promotion(Service):
    def __init__(self, backend: StreamRouter, served: ServedStreams, *, emitter: Emitter) -> None:
        self._backend = backend
        self._served = served
        self._due_times = DueTimes()
        super().__init__("promotion", self._promote, emitter=emitter)

    def something_is_due(self, stream: Stream | None = None) -> None:
        """A message was scheduled that may be due before the next check; None: in any stream."""
        self._due_times.announced(stream)
        self.poke()

    async def _promote(self) -> float | None:
        asked = self._due_times.choose([*self._served.claimed, *self._served.topics])
        if not asked:
            return self._due_times.seconds_left()
        self._due_times.forget(asked)
        promoted = await self._backend.promote(asked, limit=PROMOTE_BATCH)
        if promoted.by_stream is None:
            self._due_times.announced(None)  # there is no time for each stream, so all are asked every time
            left_us = promoted.next_in_us
            pause = PROMOTE_FALLBACK if left_us is None else min(PROMOTE_FALLBACK, max(0, left_us) / SECOND)
        else:
            found = promoted.count + promoted.limits
            self._due_times.note(asked, promoted.by_stream, promoted=found, promotions=promoted.promotions)
            pause = self._due_times.seconds_left()
        return None if promoted.count >= PROMOTE_BATCH else pause
