"""A workbench: claims of a memory store, handlers by name, and the engine's parts around them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from headrace import RetryPolicy, signals
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import ENVELOPE_VERSION, Batch, Envelope, Message, Stream, encode_envelope
from headrace.core.runtime.clock import MovableClock, microseconds
from headrace.engine.declared.registry import Handler, Registry
from headrace.engine.emitter import Emitter
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.batches.bundle import FinishedBundle
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.executor import Executor
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.preparation import RunParts, RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.streams import StreamRouter
from headrace.engine.upkeep.leases import Leases
from headrace.engine.worker.options import WorkerOptions
from tests.support.intercepted_store import InterceptedStore

SOURCE = Stream("queue", "work")
LEASE = 30.0


class Bench:
    def __init__(self) -> None:
        self.clock = MovableClock()
        self.store = InterceptedStore(self.clock)
        self.backend = StreamRouter(self.store)
        self.registry = Registry()
        self.emitter = Emitter()
        self.heard: list[signals.Signal] = []
        self.deafen = self.emitter.on(
            signals.Signal, self.heard.append
        )  # where nothing listens plain jobs run in one loop
        self.served = ServedStreams(["work"])
        self.leases = Leases(self.served, LEASE)
        self.readers = WorkerReaders()
        self.held = HeldClaims()
        self.policy = OutcomePolicy("worker", self.options(), self.held)
        self.in_flight = InFlight(self.held, self.policy, self.readers)
        self.finished: list[FinishedRun] = []  # of bundles, their parts
        self._number = 0

    def finish(self, finished: list[FinishedRun] | FinishedBundle) -> None:
        self.finished += finished if isinstance(finished, list) else finished.parts

    def executor(self, concurrency: int = 10) -> Executor:
        options, limits = self.options(concurrency), JobLimits(self.registry, ["work"])
        parts = RunParts("worker", options, self.registry, self.emitter, self.held, self.policy, None, limits)
        preparation = RunPreparation(parts, ManualAcks(self.policy, self.in_flight))
        return Executor(parts, preparation, ChildPool(1))

    def options(self, concurrency: int = 10) -> WorkerOptions:
        return WorkerOptions(
            queues=("work",),
            concurrency=concurrency,
            children=1,
            lease=LEASE,
            grace=0.0,
            max_payload=1000,
            end_record_ttl=60.0,
        )

    def slots(self, size: int) -> Slots:
        return Slots(
            size,
            executor=self.executor(size),
            held=self.held,
            finish=self.finish,
            hand_back=self.in_flight.hand_back,
        )

    def task(self, function: Callable[..., Any]) -> str:
        """Register a function that takes no arguments, under its own name."""
        self.registry.add(
            Handler(
                name=function.__name__,
                queue="work",
                function=function,
                run_in="loop" if inspect.iscoroutinefunction(function) else "thread",
                decode=lambda payload: ((), {}),
                encode=lambda value, id: msgspec.msgpack.encode(value),
                decode_result=lambda result, id: msgspec.msgpack.decode(result),
                retry=RetryPolicy.none(),
                timeout=None,
                result_ttl=60.0,
            )
        )
        return function.__name__

    async def open(self) -> None:
        await self.backend.open()
        await self.backend.declare_stream(SOURCE, microseconds(LEASE))

    async def append(self, task: str = "task", count: int = 1, *, delay: float = 0) -> list[str]:
        self._number += 1
        messages = [message(task, delay) for _ in range(count)]
        await self.backend.append(Batch(SOURCE, "producer", self._number, messages))
        return [each.id for each in messages]

    async def claims(self, task: str = "task", count: int = 1) -> list[Claim]:
        """Fresh claims of as many jobs."""
        await self.append(task, count)
        claims = await self.backend.claim([SOURCE], consumer="worker", limit=count, suspects=count, wait=0)
        assert len(claims) == count
        return claims


def message(task: str, delay: float = 0) -> Message:
    id = new_id()
    body = encode_envelope(Envelope(ENVELOPE_VERSION, id, task, 0, None, None, b"\x91\x90"))
    return Message(id, task, body, delay_us=microseconds(delay))
