"""A settler over a store. It keeps what it writes, so that a test can look at it."""

from __future__ import annotations

from headrace import signals
from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import Verdict
from headrace.engine.emitter import Emitter
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.finished import FinishedRun
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.streams import StreamRouter
from headrace.engine.worker.options import WorkerOptions


class Settling:
    """`written` has each claim with the store's verdict, and whether that is doubtful."""

    def __init__(self, backend: StreamRouter, end_record_ttl: float = 1.0) -> None:
        self.emitter = Emitter()
        self.heard: list[signals.Signal] = []
        self.emitter.on(signals.Signal, self.heard.append)
        self.held = HeldClaims()
        readers = WorkerReaders()
        options = WorkerOptions(
            queues=(),
            concurrency=1,
            children=1,
            lease=1.0,
            grace=0.0,
            max_payload=1,
            end_record_ttl=end_record_ttl,
        )
        policy = OutcomePolicy("worker", options, self.held)
        self.in_flight = InFlight(self.held, policy, readers)
        self.signals = Watched(self.emitter, worker="worker")
        self.settler = Settler(
            backend,
            in_flight=self.in_flight,
            held=self.held,
            readers=readers,
            signals=self.signals,
            traffic=TrafficCounter(backend, emitter=self.emitter),
            emitter=self.emitter,
        )

    @property
    def written(self) -> list[tuple[Claim, Verdict, bool]]:
        return self.signals.written


class Watched(SettlementSignals):
    """Keeps what the settler announces, and announces nothing."""

    def __init__(self, emitter: Emitter, *, worker: str) -> None:
        super().__init__(emitter, worker=worker)
        self.written: list[tuple[Claim, Verdict, bool]] = []

    def settled(self, finished: FinishedRun, verdict: Verdict, doubtful: bool) -> None:
        self.written.append((finished.claim, verdict, doubtful))
