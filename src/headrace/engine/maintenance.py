"""What every worker does on timers beside its jobs: named steps that say when to come again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from headrace.core.backend import Backend, Recovery
from headrace.core.clock import SECOND
from headrace.core.message import Source, Stream
from headrace.core.outcome import DeadReason
from headrace.core.record import JobStatus, WorkerInfo
from headrace.core.signals import JobDied, JobRecovered

from .emitter import Emitter
from .service import Service

#: Messages moved in one step of the store.
PROMOTE_BATCH = 200
RECLAIM_BATCH = 100
PRUNE_BATCH = 1000

#: Seconds. Promotion sleeps until the next due time; this is for announcements that went missing.
PROMOTE_FALLBACK = 5.0
PRUNE_EVERY = 30.0
BEAT_EVERY = 2.0


class Maintenance:
    """Promotion, reclaim, pruning and the worker's own announcement."""

    def __init__(
        self,
        backend: Backend,
        sources: Sequence[Source],
        *,
        lease: float,
        emitter: Emitter,
        describe: Callable[[], WorkerInfo],
        paused: Callable[[frozenset[Stream]], None],
        leases: Callable[[Mapping[Stream, int]], None],
    ) -> None:
        self._backend = backend
        self._sources = sources
        self._lease = lease
        self._emitter = emitter
        self._describe = describe
        self._paused = paused
        self._leases = leases
        self._reclaimed_at: float | None = None
        self._patient_until = 0.0
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

    def something_is_due(self) -> None:
        """Something was scheduled that may be due before the promoter meant to look again."""
        self._services["promoter"].poke()

    def follow(self, lease: float) -> None:
        """The lease has become another: look for those that ran out at its pace."""
        self._lease = lease
        self._services["reclaimer"].poke()

    async def _promote(self) -> float | None:
        promoted = await self._backend.promote(self._sources, limit=PROMOTE_BATCH)
        if promoted.count >= PROMOTE_BATCH:
            return None
        if promoted.next_in_us is None:
            return PROMOTE_FALLBACK
        return min(PROMOTE_FALLBACK, max(0, promoted.next_in_us) / SECOND)

    async def _reclaim(self) -> float | None:
        if not self._may_reclaim():
            return self._pause()
        reclaimed = await self._backend.reclaim(self._sources, limit=RECLAIM_BATCH)
        self._reclaimed_at = time.time()
        for recovery in reclaimed.recovered:
            self._announce(recovery)
        return None if reclaimed.more else self._pause()

    def _may_reclaim(self) -> bool:
        """Not within a lease after an outage: whoever is alive shall renew before anybody is robbed.

        An outage is a gap of more than a lease since this loop last got through, whatever made it: the store
        away, this process stopped, the machine asleep, its clock set forward.
        """
        now = time.time()
        if self._reclaimed_at is not None and now - self._reclaimed_at > self._lease:
            self._patient_until = time.monotonic() + self._lease
            self._reclaimed_at = None
        return time.monotonic() >= self._patient_until

    def _pause(self) -> float:
        return self._lease / 5 * random.uniform(0.5, 1.5)

    def _announce(self, recovery: Recovery) -> None:
        queue = recovery.source.stream.name
        if recovery.status is JobStatus.DEAD:
            self._emitter.emit(
                JobDied(
                    recovery.id,
                    recovery.task,
                    queue,
                    attempt=recovery.crashes,
                    reason=DeadReason.CRASHED.value,
                    error_type="",
                    error=f"its worker was lost {recovery.crashes} times, last {recovery.worker}",
                )
            )
        elif recovery.status is JobStatus.QUEUED:
            self._emitter.emit(
                JobRecovered(
                    recovery.id, recovery.task, queue, crashes=recovery.crashes, worker=recovery.worker
                )
            )

    async def _prune(self) -> float | None:
        pruned = await self._backend.prune(limit=PRUNE_BATCH)
        return None if pruned >= PRUNE_BATCH else PRUNE_EVERY * random.uniform(0.5, 1.5)

    async def _beat(self) -> float | None:
        standing = await self._backend.beat(self._describe())
        self._paused(standing.paused)
        self._leases(standing.leases)
        return BEAT_EVERY * random.uniform(0.8, 1.2)
