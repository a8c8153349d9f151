"""Builds the parts of a worker, once. Each part takes only parts that are built before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import microseconds
from headrace.core.signals import ChildNotStarted, CleanupFailed, LeftTaskFailed
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import TopicRules
from headrace.engine.history.entries import EntryMaker
from headrace.engine.history.recorder import HistoryRecorder
from headrace.engine.intake.fairness import SlotFairness
from headrace.engine.intake.group_reader import EventParts
from headrace.engine.intake.queue_reader import QueueReader, ReaderParts
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.intake.slotted_reader import SlottedReader
from headrace.engine.intake.subscriptions import Subscriptions
from headrace.engine.intake.worker_readers import WorkerReaders
from headrace.engine.relaying.outbox_source import OutboxSource, StreamOutboxes
from headrace.engine.relaying.relay import Relay
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.executor import Executor
from headrace.engine.running.failure import described
from headrace.engine.running.injection.resources import Resources
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.preparation import RunParts, RunPreparation
from headrace.engine.running.slots import Slots
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.death_calls import DeathCalls
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.settling.in_flight import InFlight
from headrace.engine.settling.manual_acks import ManualAcks
from headrace.engine.settling.settlement_signals import SettlementSignals
from headrace.engine.settling.settler import Settler
from headrace.engine.settling.traffic_counter import TrafficCounter
from headrace.engine.upkeep.dead_dropping import DeadDropping
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
from .queue import Queue
from .registry import Registry
from .service import Service, ServicePart
from .streams import StreamRouter
from .subscription import Subscription

#: A number of crashes that no message reaches.
NO_LIMIT: Final = 1 << 31


class CrashLimits(NamedTuple):
    """Where crash limits apply: in the store that recovers a message, or in the worker that claims it."""

    in_store: dict[Stream, int]
    at_claim: dict[Stream, int]


class WorkerPlan(msgspec.Struct, frozen=True):
    """What a worker is built from."""

    id: str
    options: WorkerOptions
    store: StreamRouter
    registry: Registry
    subscriptions: Sequence[Subscription]
    emitter: Emitter
    fires: bool  # whether the worker fires schedules
    outboxes: Sequence[OutboxSource] = ()  # outboxes of databases of the user
    topics: Mapping[str, TopicRules] = {}  # the topics that the app declares


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
    constrained = plan.registry.has_constraints
    slots = {queue: plan.options.slots[queue.name] for queue in queues if queue.name in plan.options.slots}
    make = partial(SlottedReader, most=slots) if slots else QueueReader
    reader = make(
        parts,
        queues,
        consumer=plan.id,
        processes=processes,
        constrained=constrained,
        crash_limits=_crash_limits(plan, claims).at_claim,
    )
    claims.readers.add(reader, queues)
    return (reader,)


def build_upkeep(
    plan: WorkerPlan,
    claims: ClaimParts,
    running: RunningParts,
    settling: SettlingParts,
    intake: IntakeParts,
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
    recovery = LeaseRecovery(
        store,
        served,
        leases=claims.leases,
        emitter=emitter,
        pulse=pulse,
        crash_limits=_crash_limits(plan, claims).in_store,
        history=settling.history,
    )
    pruning = Pruning(store, emitter=emitter)
    timings = intake.schedule_runner.timings if plan.fires else ()
    relays = build_relays(plan, claims)
    description = WorkerDescription(plan.id, plan.options, served, claims.readers, held, timings, relays)
    heartbeat = Heartbeat(
        store,
        description,
        leases=claims.leases,
        claim_control=claim_control,
        limits=running.limits,
        emitter=emitter,
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
    if dropping := _dropping(plan, served):
        services.append(DeadDropping(store, dropping, emitter=emitter))
    if not all(each.fan_out for each in plan.subscriptions):
        services.append(TopicKeeping(store, plan.subscriptions, served, emitter=emitter))
    return UpkeepParts(
        claim_control,
        lease_renewal,
        progress,
        promotion,
        recovery,
        heartbeat,
        relays,
        (*relays, *services),
    )


def _dropping(plan: WorkerPlan, served: ServedStreams) -> dict[Stream, Queue]:
    """The queues that do not keep all their dead letters."""
    declared = plan.registry.declared_queues
    queues = {stream: declared[stream.name] for stream in served.queues if stream.name in declared}
    return {
        stream: queue
        for stream, queue in queues.items()
        if queue.dead_retention is not None or queue.dead_limit is not None
    }


def _crash_limits(plan: WorkerPlan, claims: ClaimParts) -> CrashLimits:
    """The crash limits of the queues that declare one. The deaths of a queue with `on_dead` are written with
    a call. So there the store recovers a message at its limit too, and the worker that claims it next makes
    it a dead letter."""
    declared = [(queue, plan.registry.declared_queues.get(queue.name)) for queue in claims.served.queues]
    limits = {queue: options.crash_limit for queue, options in declared if options is not None}
    calling = [queue for queue in limits if queue.name in plan.registry.death_tasks]
    in_store = {queue: most for queue, most in limits.items() if most is not None}
    return CrashLimits(
        in_store=in_store | dict.fromkeys(calling, NO_LIMIT),
        at_claim={queue: limits[queue] or CRASH_LIMIT for queue in calling},
    )


def build_relays(plan: WorkerPlan, claims: ClaimParts) -> tuple[Relay, ...]:
    """A relay for all outboxes of streams, if the app forwards from some, and one for each outbox of a
    database."""
    forwarding = [each.stream(each.topic) for each in plan.registry.subscriptions if each.forwards]
    forwarding += [Stream("queue", queue) for queue in plan.registry.death_tasks]
    own = [StreamOutboxes(plan.store, forwarding)] if forwarding else []
    return tuple(
        Relay(
            source,
            plan.store,
            name=plan.id,
            topics=plan.topics,
            emitter=plan.emitter,
            poked=claims.in_flight.forwarded if source in own else None,
            deaths=DeathCalls(plan.registry.death_tasks, plan.emitter),
        )
        for source in (*own, *plan.outboxes)
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
