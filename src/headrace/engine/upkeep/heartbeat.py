"""Announces a worker to the store at intervals. The answer names paused streams and the current leases."""

from __future__ import annotations

import os
import random
import time
from itertools import islice

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.moving.seal import moved_to
from headrace.core.records.control import ControlState
from headrace.core.records.record import RunningJob, WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.producing.identity import host_name
from headrace.engine.relaying.relay import Relay
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.service import Service
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.streams import StreamRouter
from headrace.engine.worker.options import WorkerOptions

from .leases import Leases

#: Seconds between two announcements.
BEAT_EVERY = 2.6

#: The largest number of running jobs in an announcement.
NAMED = 100


class WorkerDescription(msgspec.Struct, frozen=True):
    """A worker as the store lists it."""

    worker: str
    options: WorkerOptions
    served: ServedStreams
    readers: WorkerReaders
    held: HeldClaims
    timings: tuple[str, ...]  # the timetables by which it fires schedules
    relays: tuple[Relay, ...] = ()

    def info(self, started_us: int) -> WorkerInfo:
        running = islice(self.held.running.values(), NAMED)
        return WorkerInfo(
            consumer=self.worker,
            host=host_name(),
            pid=os.getpid(),
            started_us=started_us,
            queues=self.options.queues,
            concurrency=self.options.concurrency,
            polled_us=round(self.readers.polled_at * SECOND),
            groups=tuple(stream.name for stream in self.served.groups),
            timings=self.timings,
            relays=tuple(name for relay in self.relays for name in relay.source.names),
            running=tuple(RunningJob(run.id, run.task, run.claim.claimed_us) for run in running),
        )

    def consumers(self) -> dict[str, list[Stream]]:
        """The names under which the worker claims, with the streams of each."""
        return {self.worker: list(self.served.queues)} | {
            reader.consumer: list(reader.streams) for reader in self.readers if reader.streams
        }


class Heartbeat(Service):
    def __init__(
        self,
        backend: StreamRouter,
        description: WorkerDescription,
        *,
        leases: Leases,
        claim_control: ClaimControl,
        limits: JobLimits,
        emitter: Emitter,
    ) -> None:
        self._backend = backend
        self._description = description
        self._started_us = 0
        self._leases = leases
        self._claim_control = claim_control
        self._limits = limits
        super().__init__("heartbeat", self._beat, emitter=emitter)

    def start(self) -> None:
        self._started_us = self._started_us or round(time.time() * SECOND)
        super().start()

    async def leave(self) -> None:
        """Remove the worker and its readers from the store's list."""
        try:
            await self._send(leaving=True)
        except BackendUnavailable:
            pass  # the store is unreachable: it forgets this worker by itself

    async def _beat(self) -> float | None:
        state = await self._send()
        self._claim_control.handle_pauses(state.paused)
        self._limits.pause(state.paused_tasks)
        self._leases.changed(state.leases)
        if state.moved_to:
            raise moved_to(state.moved_to)
        return BEAT_EVERY * random.uniform(0.9, 1.1)  # nosec B311 # jitter

    async def _send(self, *, leaving: bool = False) -> ControlState:
        worker, consumers = self._description.info(self._started_us), self._description.consumers()
        return await self._backend.heartbeat(worker, consumers, leaving=leaving)
