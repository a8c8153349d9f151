"""Counts the outcomes of messages, and writes the counts about once a second."""

from __future__ import annotations

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Dead, Done
from headrace.core.records.traffic import TrafficCount
from headrace.engine.emitter import Emitter
from headrace.engine.running.finished import FinishedRun
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

#: Seconds between two writes.
EVERY = 1.0


class TrafficCounter(Service):
    """Counts for plots. Counts that are not written when the process dies are lost."""

    def __init__(self, backend: StreamRouter, *, emitter: Emitter) -> None:
        self._backend = backend
        self._counts: dict[Stream, list[int]] = {}
        self._stream: Stream | None = None  # of the last message; the next one mostly has the same
        self._current: list[int] = []
        super().__init__("traffic", self._write_counts, emitter=emitter)

    def count(self, finished: FinishedRun) -> None:
        """Count an outcome that the store has written."""
        if finished.claim.stream is not self._stream:
            self._look_at(finished.claim)
        outcome = finished.outcome
        if type(outcome) is Done:
            self._current[0] += 1
        else:
            self._current[1] += finished.failure is not None
            self._current[2] += type(outcome) is Dead

    def count_done(self, batch: list[FinishedRun]) -> None:
        """Count outcomes that the store has written, all of them successes."""
        if not batch:
            return
        self._look_at(batch[0].claim)
        if not [each for each in batch if each.claim.stream is not self._stream]:  # as nearly always
            self._current[0] += len(batch)
        else:
            for finished in batch:
                self.count(finished)

    def _look_at(self, claim: Claim) -> None:
        self._stream = claim.stream
        self._current = self._counts.setdefault(claim.whole, [0, 0, 0])

    async def stop(self) -> None:
        await super().stop()
        try:
            await self._write()
        except BackendUnavailable:
            pass  # the store is unreachable: the last counts are lost

    async def _write_counts(self) -> float | None:
        await self._write()
        return EVERY

    async def _write(self) -> None:
        counts, self._counts, self._stream = self._counts, {}, None
        tallies = [TrafficCount(stream, *numbers) for stream, numbers in counts.items() if any(numbers)]
        if tallies:
            await self._backend.count_traffic(tallies)
