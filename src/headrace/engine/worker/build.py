"""Builds the parts of a worker, once. Each part takes only parts that are built before it."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.signals import ChildNotStarted, CleanupFailed, LeftTaskFailed
from headrace.engine.emitter import Emitter
from headrace.engine.history.entries import EntryMaker
from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.executor import Executor
from headrace.engine.running.failure import described
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.preparation import RunParts, RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.settling.death_calls import DeathCalls
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.upkeep.leases import Leases

from .build_intake import build_intake
from .build_upkeep import build_upkeep
from .control import ControlHandler
from .parts import ClaimParts, RunningParts, SettlingParts, WorkerParts
from .plan import WorkerPlan


def build(plan: WorkerPlan) -> WorkerParts:
    """Build the parts of a worker on this event loop. Starts nothing, and sends nothing to the store."""
    claims = build_claims(plan)
    running = build_running(plan, claims)
    settling = build_settling(plan, claims)
    intake = build_intake(plan, claims, running, settling)
    upkeep = build_upkeep(plan, claims, running, settling, intake)
    control = ControlHandler(
        upkeep.claim_control, claims.readers, claims.leases, upkeep.promotion, intake.schedule_runner
    )
    return WorkerParts(plan.store, claims, running, settling, intake, upkeep, control)


def build_claims(plan: WorkerPlan) -> ClaimParts:
    served = ServedStreams(plan.options.queues)
    if plan.store.store.user_database() is not None:
        # Events of transactions wait beside the log, also of topics without a subscription here.
        for topic in plan.topics:
            served.add_topic(Stream("topic", topic))
    leases = Leases(served, plan.options.lease)
    readers = WorkerReaders()
    held = HeldClaims()
    policy = OutcomePolicy(plan.id, plan.options, held, plan.registry.declared_queues)
    deaths = DeathCalls(plan.registry.death_tasks, plan.emitter) if plan.registry.death_tasks else None
    in_flight = InFlight(held, policy, readers, deaths)
    acks = ManualAcks(policy, in_flight)
    return ClaimParts(served, leases, readers, held, policy, in_flight, acks)


def build_running(plan: WorkerPlan, claims: ClaimParts) -> RunningParts:
    problems = _Problems(plan.id, plan.emitter)
    resources = Resources(
        lifespan=plan.registry.lifespan,
        announce=problems.cleanup_failed,
        left_behind=problems.left_task_failed,
    )
    limits = JobLimits(plan.registry, plan.options.queues)
    parts = RunParts(
        plan.id, plan.options, plan.registry, plan.emitter, claims.held, claims.policy, resources, limits
    )
    preparation = RunPreparation(parts, claims.acks)
    processes = ChildPool(
        plan.options.children, freed=claims.readers.room, not_started=problems.child_not_started
    )
    executor = Executor(parts, preparation, processes)
    slots = Slots(
        plan.options.concurrency,
        executor=executor,
        held=claims.held,
        finish=claims.in_flight.finish,
        hand_back=claims.in_flight.hand_back,
        batches=plan.registry.batches,
    )
    return RunningParts(resources, preparation, processes, executor, slots, limits)


def build_settling(plan: WorkerPlan, claims: ClaimParts) -> SettlingParts:
    signals = SettlementSignals(plan.emitter, worker=plan.id)
    traffic = TrafficCounter(plan.store, emitter=plan.emitter)
    history = _history(plan, claims)
    settler = Settler(
        plan.store,
        in_flight=claims.in_flight,
        held=claims.held,
        readers=claims.readers,
        signals=signals,
        traffic=traffic,
        emitter=plan.emitter,
        history=history,
    )
    return SettlingParts(signals, traffic, history, settler)


def _history(plan: WorkerPlan, claims: ClaimParts) -> HistoryRecorder | None:
    """None: the app keeps no history, or its store cannot."""
    keeping = plan.options.history
    if keeping.most == 0 or not plan.store.records:
        return None
    entries = EntryMaker(plan.id, keeping)
    return HistoryRecorder(plan.store, entries, keeping, held=claims.held, emitter=plan.emitter)


class _Problems(msgspec.Struct, frozen=True):
    """Announces problems that belong to no single outcome."""

    worker: str
    emitter: Emitter

    def child_not_started(self, error: Exception, delay: float) -> None:
        self.emitter.emit(ChildNotStarted(self.worker, described(error), delay))

    def cleanup_failed(self, name: str, error: BaseException) -> None:
        self.emitter.emit(CleanupFailed(self.worker, name, described(error)))

    def left_task_failed(self, id: str, task: str, queue: str, error: BaseException) -> None:
        self.emitter.emit(LeftTaskFailed(id, task, queue, error=described(error)))
