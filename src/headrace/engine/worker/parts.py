"""The parts of a worker, by what they are for."""

from __future__ import annotations

import msgspec

from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.subscriptions import Subscriptions
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.relaying.relay import Relay
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.executor import Executor
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.preparation import RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.service import ServicePart
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.streams import StreamRouter
from headrace.engine.upkeep.heartbeat import Heartbeat
from headrace.engine.upkeep.lease_renewal import LeaseRenewal
from headrace.engine.upkeep.leases import Leases
from headrace.engine.upkeep.progress import ProgressWriter
from headrace.engine.upkeep.promotion import Promotion
from headrace.engine.upkeep.recovery import LeaseRecovery
from headrace.engine.upkeep.schedule_runner import ScheduleRunner

from .control import ControlHandler


class ClaimParts(msgspec.Struct, frozen=True):
    """Which streams are served, which claims are held, and what becomes of them."""

    served: ServedStreams
    leases: Leases
    readers: WorkerReaders
    held: HeldClaims
    policy: OutcomePolicy
    in_flight: InFlight
    acks: ManualAcks


class RunningParts(msgspec.Struct, frozen=True):
    """From a claim in a slot to its outcome."""

    resources: Resources
    preparation: RunPreparation
    processes: ChildPool
    executor: Executor
    slots: Slots
    limits: JobLimits


class SettlingParts(msgspec.Struct, frozen=True):
    """From an outcome to its write in the store."""

    signals: SettlementSignals
    traffic: TrafficCounter
    history: HistoryRecorder | None
    settler: Settler


class IntakeParts(msgspec.Struct, frozen=True):
    """What brings new work in. It stops first."""

    subscriptions: Subscriptions
    schedule_runner: ScheduleRunner
    services: tuple[ServicePart, ...]


class UpkeepParts(msgspec.Struct, frozen=True):
    """What runs at intervals, beside the jobs."""

    claim_control: ClaimControl
    lease_renewal: LeaseRenewal
    progress: ProgressWriter
    promotion: Promotion
    recovery: LeaseRecovery
    heartbeat: Heartbeat
    relays: tuple[Relay, ...]
    services: tuple[ServicePart, ...]


class WorkerParts(msgspec.Struct, frozen=True):
    """The parts of a worker, in the order in which they are built."""

    store: StreamRouter
    claims: ClaimParts
    running: RunningParts
    settling: SettlingParts
    intake: IntakeParts
    upkeep: UpkeepParts
    control: ControlHandler

    @property
    def path(self) -> tuple[ServicePart, ...]:
        """The services that run claims and write their outcomes. They stop last."""
        settling = self.settling
        history = () if settling.history is None else (settling.history,)
        return self.running.slots, settling.settler, settling.traffic, *history
