"""Recovers messages whose lease ran out: their worker is gone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import State, Stream
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.answers import Recovery
from headrace.core.records.record import JobStatus, Record, dead_letter_of, opened_letter
from headrace.core.runtime.clock import SECOND, SystemClock, microseconds
from headrace.core.signals import ClockStepped, EventDied, EventRecovered, JobDied, JobRecovered, Signal
from headrace.core.store import NO_CRASH_LIMITS
from headrace.engine.emitter import Emitter
from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

from .leases import Leases
from .process_pulse import LONG_GAP, ProcessPulse

#: Messages recovered in one step of the store.
RECLAIM_BATCH = 100

#: All workers together check this many times in each lease for leases that ran out.
RECLAIMS = 5


class LeaseRecovery(Service):
    """Checks a few times in each lease, and at once when the lease changes.

    `beside`: queues that share a limit with those that are served. A worker that died there may have been the
    last one of its queue, and it holds slots for which the jobs here wait.
    """

    def __init__(
        self,
        backend: StreamRouter,
        served: ServedStreams,
        *,
        leases: Leases,
        emitter: Emitter,
        pulse: ProcessPulse,
        beside: Sequence[Stream] = (),
        crash_limits: Mapping[Stream, int] = NO_CRASH_LIMITS,
        history: HistoryRecorder | None = None,
    ) -> None:
        self._backend = backend
        self._served = served
        self._beside = tuple(beside)
        self._leases = leases
        self._pulse = pulse
        self._crash_limits = crash_limits
        self._history = history
        self._clock = SystemClock()
        self._elapsed_us = self._clock.elapsed_us
        self._reached_us: int | None = None  # when a check last succeeded
        self._refused = False  # a check failed since then
        super().__init__("recovery", self._reclaim, emitter=emitter)
        leases.on_change(self.poke)

    async def _reclaim(self) -> float | None:
        every = self._leases.shortest / RECLAIMS
        asked_us = self._elapsed_us()
        try:
            reclaimed = await self._backend.reclaim(
                [*self._served.claimed, *self._beside],
                limit=RECLAIM_BATCH,
                every_us=microseconds(every),
                after_outage=self._was_away(),
                crash_limits=self._crash_limits,
            )
        except Exception:
            self._refused = True
            raise
        self._reached_us, self._refused = asked_us, False  # not the time of the answer, which may come late
        if reclaimed.stepped_us:
            self._emitter.emit(ClockStepped(reclaimed.stepped_us / SECOND))
        for recovery in reclaimed.recovered:
            await self._announce(recovery)
        if reclaimed.more:
            return None
        # The worker that has the turn keeps it. The others check later, and take over when it is gone.
        return every * (random.uniform(1.0, 2.0) if reclaimed.others_turn else random.uniform(0.95, 1.05))  # nosec B311 # jitter

    def _was_away(self) -> bool:
        """Whether this check comes after an outage: only failures for half a lease, or a gap since the last
        success in which a lease can run out. A stopped process or a sleeping machine makes such a gap. A
        blocked event loop does not count: it would put off the recovery for all workers, again and again."""
        if self._reached_us is None:
            return False
        lease, gap = self._leases.shortest, (self._elapsed_us() - self._reached_us) / SECOND
        if self._refused and gap >= lease / 2:
            return True
        return gap > LONG_GAP * lease and self._pulse.stood_still(self._reached_us)

    async def _announce(self, recovery: Recovery) -> None:
        signal = (
            recovered_event(recovery) if recovery.stream.kind == "group" else await self._recovered(recovery)
        )
        if signal is not None:
            self._emitter.emit(signal)

    async def _recovered(self, recovery: Recovery) -> Signal | None:
        """The signal for a job that was recovered from a worker that is gone."""
        names = recovery.id, recovery.task, recovery.stream.name
        if recovery.status is JobStatus.DEAD:
            record = await self._dead_record(recovery)
            if self._history is not None:
                self._history.ended_elsewhere(record)
            return JobDied(
                *names,
                attempt=recovery.crashes,
                reason=DeadReason.CRASHED.value,
                error_type="",
                error=_crashes(recovery),
                dead_letter=opened_letter(dead_letter_of(record)),
            )
        if recovery.status is JobStatus.QUEUED:
            return JobRecovered(*names, crashes=recovery.crashes, worker=recovery.worker)
        return None

    async def _dead_record(self, recovery: Recovery) -> Record:
        """The record of the dead letter in the store. When it cannot be read, or is gone already: what the
        recovery knows of it."""
        try:
            record = await self._backend.get(recovery.stream, recovery.id)
        except BackendUnavailable:
            record = None
        if record is None or record.status is not JobStatus.DEAD:
            record = Record(
                recovery.stream,
                recovery.id,
                JobStatus.DEAD,
                task=recovery.task,
                state=State(crashes=recovery.crashes),
                ended_us=self._clock.now_us(),
                reason=DeadReason.CRASHED,
                failure=Failure("", _crashes(recovery)),
            )
        return record


def recovered_event(recovery: Recovery) -> Signal | None:
    """The signal for an event that was recovered from a worker that is gone."""
    stream = recovery.stream
    names = recovery.id, recovery.task, stream.topic, stream.group
    if recovery.status is JobStatus.DEAD:
        return EventDied(*names, recovery.crashes, DeadReason.CRASHED.value, "", _crashes(recovery))
    return EventRecovered(*names, crashes=recovery.crashes, worker=recovery.worker)


def _crashes(recovery: Recovery) -> str:
    return f"its worker was lost {recovery.crashes} times, last {recovery.worker}"
