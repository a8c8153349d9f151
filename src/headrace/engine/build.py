"""Builds the parts of a worker, once. Each part takes only parts that are built before it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.runtime.clock import microseconds
from headrace.core.signals import ChildNotStarted, CleanupFailed, LeftTaskFailed
from headrace.engine.intake.fairness import SlotFairness
from headrace.engine.intake.group_reader import EventParts
from headrace.engine.intake.queue_reader import QueueReader, ReaderParts
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.subscriptions import Subscriptions
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.executor import Executor
from headrace.engine.running.failure import described
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.preparation import RunParts, RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.upkeep.heartbeat import Heartbeat, WorkerDescription
from headrace.engine.upkeep.lease_renewal import LeaseRenewal
from headrace.engine.upkeep.leases import Leases
from headrace.engine.upkeep.process_pulse import ProcessPulse
from headrace.engine.upkeep.progress import ProgressWriter
from headrace.engine.upkeep.promotion import Promotion
from headrace.engine.upkeep.pruning import Pruning
from headrace.engine.upkeep.recovery import LeaseRecovery
from headrace.engine.upkeep.schedule_runner import ScheduleRunner
from headrace.engine.upkeep.topic_keeping import TopicKeeping

from .control import ControlHandler
from .emitter import Emitter
from .options import WorkerOptions
from .registry import Registry
from .service import Service, ServicePart
from .streams import StreamRouter
from .subscription import Subscription


class WorkerPlan(msgspec.Struct, frozen=True):
    """What a worker is built from."""

    id: str
    options: WorkerOptions
    store: StreamRouter
    registry: Registry
    subscriptions: Sequence[Subscription]
    emitter: Emitter
    fires: bool  # whether the worker fires schedules


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


class SettlingParts(msgspec.Struct, frozen=True):
    """From an outcome to its write in the store."""

    signals: SettlementSignals
    traffic: TrafficCounter
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
        return self.running.slots, self.settling.settler, self.settling.traffic


def build(plan: WorkerPlan) -> WorkerParts:
    """Build the parts of a worker on this event loop. Starts nothing, and sends nothing to the store."""
    claims = build_claims(plan)
    running = build_running(plan, claims)
    settling = build_settling(plan, claims)
    intake = build_intake(plan, claims, running, settling)
    upkeep = build_upkeep(plan, claims, running, intake)
    control = ControlHandler(
        upkeep.claim_control, claims.readers, claims.leases, upkeep.promotion, intake.schedule_runner
    )
    return WorkerParts(plan.store, claims, running, settling, intake, upkeep, control)


def build_claims(plan: WorkerPlan) -> ClaimParts:
    served = ServedStreams(plan.options.queues)
    leases = Leases(served, plan.options.lease)
    readers = WorkerReaders()
    held = HeldClaims()
    policy = OutcomePolicy(plan.id, plan.options, held)
    in_flight = InFlight(held, policy, readers)
    acks = ManualAcks(policy, in_flight)
    return ClaimParts(served, leases, readers, held, policy, in_flight, acks)


def build_running(plan: WorkerPlan, claims: ClaimParts) -> RunningParts:
    problems = _Problems(plan.id, plan.emitter)
    resources = Resources(
        lifespan=plan.registry.lifespan,
        announce=problems.cleanup_failed,
        left_behind=problems.left_task_failed,
    )
    parts = RunParts(
        plan.id, plan.options, plan.registry, plan.emitter, claims.held, claims.policy, resources
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
    )
    return RunningParts(resources, preparation, processes, executor, slots)


def build_settling(plan: WorkerPlan, claims: ClaimParts) -> SettlingParts:
    signals = SettlementSignals(plan.emitter, worker=plan.id)
    traffic = TrafficCounter(plan.store, emitter=plan.emitter)
    settler = Settler(
        plan.store,
        in_flight=claims.in_flight,
        held=claims.held,
        readers=claims.readers,
        signals=signals,
        traffic=traffic,
        emitter=plan.emitter,
    )
    return SettlingParts(signals, traffic, settler)


def build_intake(
    plan: WorkerPlan, claims: ClaimParts, running: RunningParts, settling: SettlingParts
) -> IntakeParts:
    """Jobs are the first reader, then groups and fan-outs."""
    parts = ReaderParts(plan.store, running.slots, claims.held, claims.in_flight, claims.leases, plan.emitter)
    queue_readers = _queue_readers(plan, claims, running, parts)
    fairness = SlotFairness(
        running.slots,
        claims.held.running,
        registry=plan.registry,
        subscriptions=plan.subscriptions,
        with_jobs=bool(plan.registry.queues().intersection(plan.options.queues)),
        room_made=claims.readers.room,
    )
    subscriptions = Subscriptions(
        plan.subscriptions,
        worker=plan.id,
        registry=plan.registry,
        served=claims.served,
        readers=claims.readers,
        parts=parts,
        events=EventParts(fairness, claims.acks, running.preparation, settling.signals),
    )
    schedule_runner = ScheduleRunner(
        plan.store,
        claims.served.queues,
        plan.registry.schedules.values(),
        emitter=plan.emitter,
        expired_ttl_us=microseconds(plan.options.end_record_ttl),
        codec=plan.registry.codec,
    )
    fired = (schedule_runner,) if plan.fires else ()
    return IntakeParts(subscriptions, schedule_runner, (*queue_readers, subscriptions, *fired))


def _queue_readers(
    plan: WorkerPlan, claims: ClaimParts, running: RunningParts, parts: ReaderParts
) -> tuple[QueueReader, ...]:
    """The reader of jobs. A worker without queues has none."""
    queues = claims.served.queues
    if not queues:
        return ()
    processes = running.processes if plan.registry.has_children else None
    reader = QueueReader(parts, queues, consumer=plan.id, processes=processes)
    claims.readers.add(reader, queues)
    return (reader,)


def build_upkeep(
    plan: WorkerPlan, claims: ClaimParts, running: RunningParts, intake: IntakeParts
) -> UpkeepParts:
    store, emitter, served, held = plan.store, plan.emitter, claims.served, claims.held
    claim_control = ClaimControl(
        plan.id, slots=running.slots, held=held, in_flight=claims.in_flight, emitter=emitter
    )
    pulse = ProcessPulse(claims.leases)
    lease_renewal = LeaseRenewal(
        store.lease_keeper(),
        held=held,
        leases=claims.leases,
        report=claim_control.handle_renewals,
        emitter=emitter,
        pulse=pulse,
    )
    prefetch_return = Service("prefetch return", running.slots.return_prefetched, emitter=emitter)
    progress = ProgressWriter(store, running=held.running, policy=claims.policy, emitter=emitter)
    promotion = Promotion(store, served, emitter=emitter)
    recovery = LeaseRecovery(store, served, leases=claims.leases, emitter=emitter, pulse=pulse)
    pruning = Pruning(store, emitter=emitter)
    timings = intake.schedule_runner.timings if plan.fires else ()
    description = WorkerDescription(plan.id, plan.options, served, claims.readers, held, timings)
    heartbeat = Heartbeat(
        store, description, leases=claims.leases, claim_control=claim_control, emitter=emitter
    )
    services: list[ServicePart] = [
        lease_renewal,
        prefetch_return,
        progress,
        promotion,
        recovery,
        pruning,
        heartbeat,
    ]
    if not all(each.fan_out for each in plan.subscriptions):
        services.append(TopicKeeping(store, plan.subscriptions, served, emitter=emitter))
    return UpkeepParts(
        claim_control, lease_renewal, progress, promotion, recovery, heartbeat, tuple(services)
    )


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
