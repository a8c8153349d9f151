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
from headrace.engine.running.preparation import RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.upkeep.heartbeat import Heartbeat
from headrace.engine.upkeep.lease_renewal import LeaseRenewal
from headrace.engine.upkeep.leases import Leases
from headrace.engine.upkeep.prefetch_return import PrefetchReturn
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
from .service import ServicePart
from .streams import StreamRouter
from .subscription import Subscription


class WorkerPlan(msgspec.Struct, frozen=True):
    """What a worker is built from."""

    id: str
    options: WorkerOptions
    registry: Registry
    subscriptions: Sequence[Subscription]
    emitter: Emitter
    fires: bool  # whether the worker fires schedules


class WorkerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a worker, in the order in which they depend on each other."""

    store: StreamRouter
    served: ServedStreams
    leases: Leases
    readers: WorkerReaders
    held: HeldClaims
    in_flight: InFlight
    acks: ManualAcks
    resources: Resources
    executor: Executor
    slots: Slots
    subscriptions: Subscriptions
    settler: Settler
    claim_control: ClaimControl
    lease_renewal: LeaseRenewal
    promotion: Promotion
    recovery: LeaseRecovery
    schedule_runner: ScheduleRunner
    progress: ProgressWriter
    heartbeat: Heartbeat
    control: ControlHandler
    #: Parts that bring new work in. They stop first.
    intake: tuple[ServicePart, ...]
    #: Parts that run claims and write their outcomes. They stop last.
    path: tuple[ServicePart, ...]
    #: Parts that every worker runs at intervals, beside its jobs.
    duties: tuple[ServicePart, ...]


def build(plan: WorkerPlan, store: StreamRouter) -> WorkerParts:
    """Build the parts of a worker on this event loop. Starts nothing, and sends nothing to the store."""
    options, registry, emitter = plan.options, plan.registry, plan.emitter

    # Held claims and their outcomes.
    served = ServedStreams(options.queues)
    leases = Leases(served, options.lease)
    readers = WorkerReaders()
    held = HeldClaims()
    policy = OutcomePolicy(plan.id, options, held)
    in_flight = InFlight(held, policy, readers)
    acks = ManualAcks(policy, in_flight)

    # Running.
    resources = _resources(plan)
    preparation = RunPreparation(registry, options, held=held, policy=policy, acks=acks, resources=resources)
    processes = ChildPool(
        options.children,
        freed=readers.room,
        not_started=lambda error, delay: emitter.emit(ChildNotStarted(plan.id, described(error), delay)),
    )
    executor = Executor(
        registry=registry,
        preparation=preparation,
        policy=policy,
        held=held,
        processes=processes,
        options=options,
        consumer=plan.id,
        emitter=emitter,
        resources=resources,
    )
    slots = Slots(options.concurrency, executor=executor, finish=in_flight.finish)

    # Reading: jobs are the first reader, then groups and fan-outs.
    signals = SettlementSignals(emitter, worker=plan.id)
    parts = ReaderParts(store, slots, held, in_flight, leases, emitter)
    queue_readers = _queue_readers(plan, parts, served, readers, processes)
    fairness = SlotFairness(
        slots,
        held.running,
        registry=registry,
        subscriptions=plan.subscriptions,
        with_jobs=bool(registry.queues().intersection(options.queues)),
        room_made=readers.room,
    )
    subscriptions = Subscriptions(
        plan.subscriptions,
        worker=plan.id,
        registry=registry,
        served=served,
        readers=readers,
        parts=parts,
        events=EventParts(fairness, acks, preparation, signals),
    )

    # Settling.
    traffic = TrafficCounter(store, emitter=emitter)
    settler = Settler(
        store,
        in_flight=in_flight,
        held=held,
        readers=readers,
        signals=signals,
        traffic=traffic,
        emitter=emitter,
    )

    # Upkeep.
    claim_control = ClaimControl(plan.id, slots=slots, held=held, in_flight=in_flight, emitter=emitter)
    pulse = ProcessPulse(leases)
    lease_renewal = LeaseRenewal(
        store.lease_keeper(),
        held=held,
        leases=leases,
        report=claim_control.handle_renewals,
        emitter=emitter,
        pulse=pulse,
    )
    promotion = Promotion(store, served, emitter=emitter)
    recovery = LeaseRecovery(store, served, leases=leases, emitter=emitter, pulse=pulse)
    schedule_runner = ScheduleRunner(
        store,
        served.queues,
        registry.schedules.values(),
        emitter=emitter,
        mark_us=microseconds(options.mark_ttl),
    )
    progress = ProgressWriter(store, running=held.running, policy=policy, emitter=emitter)
    heartbeat = Heartbeat(
        store,
        plan.id,
        options,
        served=served,
        readers=readers,
        held=held,
        leases=leases,
        claim_control=claim_control,
        timings=schedule_runner.timings if plan.fires else (),
        emitter=emitter,
    )
    duties: tuple[ServicePart, ...] = (
        lease_renewal,
        PrefetchReturn(slots, held, in_flight=in_flight, emitter=emitter),
        progress,
        promotion,
        recovery,
        Pruning(store, emitter=emitter),
        heartbeat,
    )
    if not all(each.fan_out for each in plan.subscriptions):
        duties += (TopicKeeping(store, plan.subscriptions, served, emitter=emitter),)
    control = ControlHandler(
        claim_control=claim_control,
        readers=readers,
        leases=leases,
        promotion=promotion,
        schedule_runner=schedule_runner,
    )
    return WorkerParts(
        store=store,
        served=served,
        leases=leases,
        readers=readers,
        held=held,
        in_flight=in_flight,
        acks=acks,
        resources=resources,
        executor=executor,
        slots=slots,
        subscriptions=subscriptions,
        settler=settler,
        claim_control=claim_control,
        lease_renewal=lease_renewal,
        promotion=promotion,
        recovery=recovery,
        schedule_runner=schedule_runner,
        progress=progress,
        heartbeat=heartbeat,
        control=control,
        intake=(*queue_readers, subscriptions, *((schedule_runner,) if plan.fires else ())),
        path=(slots, settler, traffic),
        duties=duties,
    )


def _queue_readers(
    plan: WorkerPlan,
    parts: ReaderParts,
    served: ServedStreams,
    readers: WorkerReaders,
    processes: ChildPool,
) -> tuple[QueueReader, ...]:
    """The reader of jobs. A worker without queues has none."""
    if not served.queues:
        return ()
    pool = processes if plan.registry.has_children else None
    reader = QueueReader(parts, served.queues, consumer=plan.id, processes=pool)
    readers.add(reader, served.queues)
    return (reader,)


def _resources(plan: WorkerPlan) -> Resources:
    emitter = plan.emitter
    return Resources(
        lifespan=plan.registry.lifespan,
        announce=lambda name, error: emitter.emit(CleanupFailed(plan.id, name, described(error))),
        left_behind=lambda run, error: emitter.emit(
            LeftTaskFailed(run.id, run.task, run.queue, error=described(error))
        ),
    )
