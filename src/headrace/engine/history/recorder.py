"""Records jobs that have ended. It never holds up their settlement.

On a quiet queue, and where every job is kept, the settlement itself carries the record: one step writes both.
In a flood, the jobs to record are chosen once a second, and written in one step for each queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.history.entry import HistoryEntry
from headrace.core.messages.message import Stream
from headrace.core.records.record import Record
from headrace.engine.emitter import Emitter
from headrace.engine.running.finished import FinishedRun
from headrace.engine.service import Service
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.streams import StreamRouter

from .entries import STATUSES, EntryMaker
from .keeping import HistoryKeeping
from .sample import MOST, SampledRun, SecondSample, is_plain

#: Seconds between two writes.
EVERY: Final = 1.0

#: The most records of a second that settlements carry, unless every job is kept. When a flood begins in that
#: second, the rest of `MOST` is for its failures and its slowest jobs.
CARRIED: Final = 10

#: The most entries that wait while the store is away. Beyond that, the oldest are dropped.
WAITING: Final = 500


class HistoryRecorder(Service):
    def __init__(
        self,
        backend: StreamRouter,
        entries: EntryMaker,
        keeping: HistoryKeeping,
        *,
        held: HeldClaims,
        emitter: Emitter,
    ) -> None:
        self._backend = backend
        self._entries = entries
        self._held = held
        self._limits = keeping.limits
        self._every_job = keeping.every_job
        self._sample = SecondSample()
        self._carried = 0  # in this second
        self._was_quiet = True  # in the second before
        self._passes = keeping.ttl_us > 0
        #: What is to be written. Histories that settlements have written to are trimmed.
        self._waiting: dict[Stream, list[HistoryEntry]] = {}
        super().__init__("history", self._record, emitter=emitter)

    # --- in the settlement -------------------------------------------------------------------------------

    def attached(self, batch: list[FinishedRun], *, repeated: bool) -> list[FinishedRun]:
        """The batch, with records for the step that settles it. `repeated`: an earlier try failed; then only
        what must be kept is added."""
        if not repeated and batch and batch[0].claim.stream.kind == "queue":
            # Counted before the write: else a slow write makes a flood look like a quiet second.
            self._sample.seen += len(batch)
        if not self._every_job and (repeated or self._is_flood(len(batch))):
            return batch
        return [self._with_record(each) if self._is_carried(each) else each for each in batch]

    def _is_flood(self, count: int) -> bool:
        """Whether more jobs end than can be recorded, so that they must be chosen."""
        return not self._was_quiet or self._carried + count > CARRIED or len(self._held) > MOST

    def _is_carried(self, finished: FinishedRun) -> bool:
        """Whether the step that settles a job writes its record. A ring belongs to a whole queue: the step
        cannot write to it from a part."""
        claim = finished.claim
        if type(finished.outcome) not in STATUSES or claim.stream.kind != "queue":
            return False
        return self._every_job or claim.part_of is None

    def _with_record(self, finished: FinishedRun) -> FinishedRun:
        self._carried += 1
        entry = self._entries.of_run(finished, self._held.store_clock_us(finished.claim))
        return msgspec.structs.replace(finished, record=entry)

    # --- after the settlement ----------------------------------------------------------------------------

    def ended(self, batch: list[FinishedRun]) -> None:
        """Successes at the first try, which the store has written. Their claims are still held."""
        if not batch:
            return
        stream = batch[0].claim.stream
        if batch[0].record is None and not [each for each in batch if each.claim.stream is not stream]:
            if stream.kind == "queue":
                ended_us = self._held.store_clock_us(batch[-1].claim)
                self._sample.of(batch[0].claim.whole).add(batch, ended_us)
            return
        for finished in batch:
            self.ended_one(finished)

    def ended_one(self, finished: FinishedRun) -> None:
        """An outcome that the store has written. Its claim is still held."""
        claim = finished.claim
        if type(finished.outcome) not in STATUSES or claim.stream.kind != "queue":
            return
        if finished.record is not None:
            if not self._every_job or self._passes:
                self._waiting.setdefault(claim.stream, [])
            return
        ended_us = self._held.store_clock_us(claim)
        sample = self._sample.of(claim.whole)
        if is_plain(finished):
            sample.add([finished], ended_us)
        else:
            sample.add_notable(finished, ended_us)

    def ended_elsewhere(self, record: Record) -> None:
        """A job that ended without a run of this worker, such as one that crashed too often."""
        self._wait(record.stream, [self._entries.of_record(record)])

    # --- the writes --------------------------------------------------------------------------------------

    async def stop(self) -> None:
        await super().stop()
        try:
            await self._write()
        except BackendUnavailable:
            pass  # the store is unreachable: the last entries are lost

    async def _record(self) -> float | None:
        await self._write()
        return EVERY

    async def _write(self) -> None:
        sample, self._sample = self._sample, SecondSample()
        self._was_quiet = sample.seen <= MOST and len(self._held) <= MOST
        for stream, chosen in sample.chosen(MOST - min(self._carried, CARRIED)).items():
            self._wait(stream, self._made(chosen))
        self._carried = 0
        waiting, self._waiting = self._waiting, {}
        while waiting:
            stream, entries = waiting.popitem()
            try:
                await self._backend.record_history(stream, entries, self._limits)
            except BackendUnavailable as error:
                if not isinstance(error, RequestRefused):  # else it would be refused again
                    self._wait(stream, entries)
                for stream, entries in waiting.items():
                    self._wait(stream, entries)
                raise

    def _made(self, chosen: Iterable[SampledRun]) -> list[HistoryEntry]:
        return [self._entries.of_run(finished, ended_us) for finished, ended_us in chosen]

    def _wait(self, stream: Stream, entries: list[HistoryEntry]) -> None:
        waiting = self._waiting.setdefault(stream, [])
        waiting += entries
        del waiting[: max(0, len(waiting) - WAITING)]
