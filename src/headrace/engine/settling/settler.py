"""Writes outcomes in batches, and then closes their claims. A batch is what came during the write before."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Done, Released, Verdict
from headrace.core.signals import JobSucceeded
from headrace.engine.emitter import Emitter
from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.finished import FinishedRun
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

from .held_claims import HeldClaims
from .in_flight import InFlight
from .settlement_signals import SettlementSignals
from .traffic_counter import TrafficCounter

#: Settlements in one write.
BATCH = 500

# Looked up once: access to a member of an enumeration is slower than to a global name.
_KEPT = Verdict.KEPT


class Settler(Service):
    """Uses no timers: a single outcome is written at once, many are written in hundreds."""

    def __init__(
        self,
        backend: StreamRouter,
        *,
        in_flight: InFlight,
        held: HeldClaims,
        readers: WorkerReaders,
        signals: SettlementSignals,
        traffic: TrafficCounter,
        emitter: Emitter,
        history: HistoryRecorder | None = None,
    ) -> None:
        self.processed = 0
        self.released = 0
        self._backend = backend
        self._in_flight = in_flight
        self._held = held
        self._readers = readers
        self._signals = signals
        self._traffic = traffic
        self._history = history
        self._doubtful = False  # the last write failed, but the store may have written a part
        super().__init__("settler", self._settle, emitter=emitter, poked=in_flight.arrived)

    async def _settle(self) -> float | None:
        if not self._in_flight.unwritten:
            self._in_flight.nothing_to_write()
            return 3600.0  # the next outcome ends the pause
        doubtful, self._doubtful = self._doubtful, False
        batch = self._in_flight.unwritten[:BATCH]
        if self._history is not None:
            batch = self._history.attached(batch, repeated=self.failures > 0)
        try:
            await self._write(batch, doubtful)
        except BackendUnavailable:
            self._doubtful = True
            raise
        return None

    async def _write(self, batch: list[FinishedRun], doubtful: bool) -> None:
        try:
            verdicts = await self._backend.settle(batch)
        except Exception as error:
            if _is_away(error):
                raise
            await self._write_apart(batch)
        else:
            self._conclude(batch, verdicts, doubtful)

    async def _write_apart(self, batch: list[FinishedRun]) -> None:
        """Write each outcome alone: the store refused the batch because of one of them."""
        refusal: Exception | None = None
        for finished in batch:
            try:
                written, verdicts = await self._write_alone(finished)
            except Exception as error:
                if _is_away(error):
                    raise
                written, verdicts = await self._write_as_dead(finished, error, alone=finished is batch[0])
                refusal = error
            self._conclude([written], verdicts, doubtful=True)
        if refusal is not None:
            raise refusal

    async def _write_alone(self, finished: FinishedRun) -> tuple[FinishedRun, list[Verdict]]:
        """Write one outcome. When the store refuses it with its record, it is written without: the history
        may be damaged, and is only for people."""
        try:
            return finished, await self._backend.settle([finished])
        except Exception as error:
            if finished.record is None or _is_away(error):
                raise
        plain = msgspec.structs.replace(finished, record=None)
        return plain, await self._backend.settle([plain])

    async def _write_as_dead(
        self, finished: FinishedRun, error: Exception, *, alone: bool
    ) -> tuple[FinishedRun, list[Verdict]]:
        """Make a message a dead letter, because the store will never write its outcome. `alone`: nothing was
        written since the store began to refuse."""
        dead = self._in_flight.refuse(finished, error)
        if self._history is not None:
            [dead] = self._history.attached([dead], repeated=True)
        try:
            return await self._write_alone(dead)
        except Exception as another:
            if _is_away(another):
                raise
            if alone and isinstance(another, RequestRefused):
                # The store may refuse everything for a while. The next try begins with another outcome.
                self._in_flight.put_last()
                raise
            # Let the lease run out, so that recovery finds the message and counts a crash.
            return finished, [Verdict.LOST]

    def _conclude(self, batch: list[FinishedRun], verdicts: list[Verdict], doubtful: bool) -> None:
        """Close the claims after the store's answer. `doubtful`: an earlier try may have been written, with
        its answer lost."""
        del self._in_flight.unwritten[: len(batch)]
        pairs: Iterable[tuple[FinishedRun, Verdict]] = zip(batch, verdicts, strict=True)
        if not self._readers.limited and JobSucceeded not in self._emitter.wanted:
            # A fast way for nearly all: jobs that succeed the first time, with no listener for that.
            rest = [
                (each, verdict)
                for each, verdict in pairs
                if verdict is not _KEPT or type(each.outcome) is not Done or each.claim.state is not FRESH
            ]
            special = {each.claim for each, _ in rest}
            self._close_plain([each for each in batch if each.claim not in special] if rest else batch)
            pairs = rest
        for finished, verdict in pairs:
            self._close(finished, verdict, doubtful)
        self._readers.room()

    def _close_plain(self, batch: list[FinishedRun]) -> None:
        if self._history is not None:
            self._history.ended(batch)
        self._held.drop_fresh(batch)
        self._traffic.count_done(batch)
        self.processed += len(batch)

    def _close(self, finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        """Drop a claim, count it, inform its reader, and announce its outcome."""
        if self._history is not None and verdict is _KEPT:
            self._history.ended_one(finished)
        self._held.drop(finished.claim)
        if isinstance(finished.outcome, Released):
            self.released += 1
        else:
            self.processed += 1
        if verdict is _KEPT:
            self._traffic.count(finished)
            if finished.forwards:
                self._in_flight.forwarded.set()
        reader = self._readers.of(finished.claim)
        if reader is not None:
            reader.written(finished)
        if finished.claim.suspect:
            self._readers.look_again()  # any reader may take the next suspect now
        self._signals.settled(finished, verdict, doubtful)


def _is_away(error: Exception) -> bool:
    """Whether the store is unreachable. Then the same write may succeed later."""
    return isinstance(error, BackendUnavailable) and not isinstance(error, RequestRefused)
