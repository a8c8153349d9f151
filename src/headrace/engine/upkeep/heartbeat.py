"""Announces a worker to the store at intervals. The answer names paused streams and the current leases."""

from __future__ import annotations

import os
import random
import time
from itertools import islice

from headrace.core.errors import BackendUnavailable
from headrace.core.records.control import ControlState
from headrace.core.records.record import RunningJob, WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.options import WorkerOptions
from headrace.engine.producing.identity import host_name
from headrace.engine.service import Service
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.streams import StreamRouter

from .leases import Leases

#: Seconds between two announcements.
BEAT_EVERY = 2.5

#: The largest number of running jobs in an announcement.
NAMED = 100


class Heartbeat:
    def __init__(
        self,
        backend: StreamRouter,
        worker: str,
        options: WorkerOptions,
        *,
        served: ServedStreams,
        readers: WorkerReaders,
        held: HeldClaims,
        leases: Leases,
        claim_control: ClaimControl,
        timings: tuple[str, ...],
        emitter: Emitter,
    ) -> None:
        self._backend = backend
        self._worker = worker
        self._options = options
        self._served = served
        self._readers = readers
        self._held = held
        self._leases = leases
        self._claim_control = claim_control
        self._timings = timings  # the timetables by which this worker fires schedules
        self._started_us = 0
        self._service = Service("heartbeat", self._beat, emitter=emitter)
        self.stop, self.poke = self._service.stop, self._service.poke

    def start(self) -> None:
        self._started_us = round(time.time() * SECOND)
        self._service.start()

    async def leave(self) -> None:
        """Remove the worker and its readers from the store's list."""
        try:
            await self._send(leaving=True)
        except BackendUnavailable:
            pass  # the store is unreachable: it forgets this worker by itself

    async def _beat(self) -> float | None:
        standing = await self._send()
        self._claim_control.handle_pauses(standing.paused)
        self._leases.changed(standing.leases)
        return BEAT_EVERY * random.uniform(0.9, 1.1)  # nosec B311 # jitter

    async def _send(self, *, leaving: bool = False) -> ControlState:
        readers = {self._worker: list(self._served.queues)} | {
            reader.consumer: list(reader.streams) for reader in self._readers if reader.streams
        }
        return await self._backend.heartbeat(self._described(), readers, leaving=leaving)

    def _described(self) -> WorkerInfo:
        running = islice(self._held.running.values(), NAMED)
        return WorkerInfo(
            consumer=self._worker,
            host=host_name(),
            pid=os.getpid(),
            started_us=self._started_us,
            queues=self._options.queues,
            concurrency=self._options.concurrency,
            polled_us=round(self._readers.polled_at * SECOND),
            groups=tuple(stream.name for stream in self._served.groups),
            timings=self._timings,
            running=tuple(RunningJob(run.id, run.task, run.claim.claimed_us) for run in running),
        )
