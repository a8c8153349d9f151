"""What every worker does on timers beside its jobs: named steps that say when to come again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from headrace.core.backend import Recovery
from headrace.core.clock import SECOND, SystemClock, microseconds
from headrace.core.message import Source, Stream
from headrace.core.orders import Standing
from headrace.core.outcome import DeadReason
from headrace.core.record import JobStatus
from headrace.core.signals import ClockStepped, EventDied, EventRecovered, JobDied, JobRecovered, Signal

from .agenda import Agenda
from .emitter import Emitter
from .service import Service
from .streams import StreamRouter

#: Messages moved in one step of the store.
PROMOTE_BATCH = 200
RECLAIM_BATCH = 100
PRUNE_BATCH = 1000

#: In each lease the fleet looks so often for those that ran out.
RECLAIMS = 5

#: In so much of a lease one can run out: when it began, the last renewal was a while ago.
LONG_GAP = 0.8

#: Seconds. Promotion sleeps until the next due time; this is for announcements that went missing.
PROMOTE_FALLBACK = 5.0
PRUNE_EVERY = 30.0
BEAT_EVERY = 2.5


class Maintenance:
    """Promotion, reclaim, pruning and the worker's own announcement."""

    def __init__(
        self,
        backend: StreamRouter,
        sources: Sequence[Source],
        *,
        due: Sequence[Source] = (),
        lease: float,
        emitter: Emitter,
        heartbeat: Callable[[], Awaitable[Standing]],
        paused: Callable[[frozenset[Stream]], None],
        leases: Callable[[Mapping[Stream, int]], None],
    ) -> None:
        self._backend = backend
        self._sources = sources
        self._agenda = Agenda()
        self._due = due  # where else messages wait for their time
        self._lease = lease
        self._emitter = emitter
        self._heartbeat = heartbeat
        self._paused = paused
        self._leases = leases
        self._elapsed_us = SystemClock().elapsed_us
        self._reached_us: int | None = None  # when the reclaimer last got through
        self._refused = False  # it was refused since then
        steps = {
            "promoter": self._promote,
            "reclaimer": self._reclaim,
            "pruner": self._prune,
            "herald": self._beat,
        }
        self._services = {name: Service(name, step, emitter=emitter) for name, step in steps.items()}

    def start(self) -> None:
        for service in self._services.values():
            service.start()

    async def stop(self) -> None:
        for service in self._services.values():
            await service.stop()

    def something_is_due(self, stream: Stream | None = None) -> None:
        """Something was scheduled that may be due before the promoter meant to look again; None: anywhere."""
        self._agenda.heed(stream)
        self._services["promoter"].poke()

    def follow(self, lease: float) -> None:
        """The lease has become another: look for those that ran out at its pace."""
        self._lease = lease
        self._services["reclaimer"].poke()

    async def _promote(self) -> float | None:
        asked = self._agenda.choose([*self._sources, *self._due])
        if not asked:
            return self._agenda.seconds_left()
        self._agenda.forget(asked)
        promoted = await self._backend.promote(asked, limit=PROMOTE_BATCH)
        if promoted.by_stream is None:
            self._agenda.heed(None)  # all are asked every time
            left_us = promoted.next_in_us
            pause = PROMOTE_FALLBACK if left_us is None else min(PROMOTE_FALLBACK, max(0, left_us) / SECOND)
        else:
            self._agenda.note(asked, promoted.by_stream)
            pause = self._agenda.seconds_left()
        return None if promoted.count >= PROMOTE_BATCH else pause

    async def _reclaim(self) -> float | None:
        every = self._lease / RECLAIMS
        asked_us = self._elapsed_us()
        try:
            reclaimed = await self._backend.reclaim(
                list(self._sources),
                limit=RECLAIM_BATCH,
                every_us=microseconds(every),
                after_outage=self._was_away(),
            )
        except Exception:
            self._refused = True
            raise
        self._reached_us, self._refused = asked_us, False  # the answer may have been long in coming
        if reclaimed.stepped_us:
            self._emitter.emit(ClockStepped(reclaimed.stepped_us / SECOND))
        for recovery in reclaimed.recovered:
            self._announce(recovery)
        if reclaimed.more:
            return None
        # Whoever has the turn keeps it. The others look later, and so take over when it is gone.
        return every * (random.uniform(1.0, 2.0) if reclaimed.others_turn else random.uniform(0.95, 1.05))

    def _was_away(self) -> bool:
        """Whether this comes after an outage: only refusals for half a lease, or a gap since this loop last
        got through in which a lease can run out, whatever made it: a stopped process, a machine asleep."""
        if self._reached_us is None:
            return False
        gap = (self._elapsed_us() - self._reached_us) / SECOND
        return gap > LONG_GAP * self._lease or (self._refused and gap >= self._lease / 2)

    def _announce(self, recovery: Recovery) -> None:
        signal = recovered_event(recovery) if recovery.source.stream.kind == "group" else recovered(recovery)
        if signal is not None:
            self._emitter.emit(signal)

    async def _prune(self) -> float | None:
        pruned = await self._backend.prune(limit=PRUNE_BATCH)
        return None if pruned >= PRUNE_BATCH else PRUNE_EVERY * random.uniform(0.5, 1.5)

    async def _beat(self) -> float | None:
        standing = await self._heartbeat()
        self._paused(standing.paused)
        self._leases(standing.leases)
        return BEAT_EVERY * random.uniform(0.9, 1.1)


def recovered(recovery: Recovery) -> Signal | None:
    """What is said of a job that was taken from a worker that is gone."""
    names = recovery.id, recovery.task, recovery.source.stream.name
    if recovery.status is JobStatus.DEAD:
        return JobDied(*names, **_death(recovery))
    if recovery.status is JobStatus.QUEUED:
        return JobRecovered(*names, crashes=recovery.crashes, worker=recovery.worker)
    return None


def recovered_event(recovery: Recovery) -> Signal | None:
    """The same of an event."""
    stream = recovery.source.stream
    names = recovery.id, recovery.task, stream.topic, stream.group
    if recovery.status is JobStatus.DEAD:
        return EventDied(*names, **_death(recovery))
    return EventRecovered(*names, crashes=recovery.crashes, worker=recovery.worker)


def _death(recovery: Recovery) -> dict[str, Any]:
    return {
        "attempt": recovery.crashes,
        "reason": DeadReason.CRASHED.value,
        "error_type": "",
        "error": f"its worker was lost {recovery.crashes} times, last {recovery.worker}",
    }
