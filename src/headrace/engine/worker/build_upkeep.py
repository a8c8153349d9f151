"""Builds what a worker does at intervals, beside the jobs."""

from __future__ import annotations

from headrace.core.messages.message import Stream
from headrace.engine.declared.queue import Queue
from headrace.engine.intake.served_streams import ServedStreams
from headrace.engine.relaying.outbox_source import StreamOutboxes
from headrace.engine.relaying.relay import Relay
from headrace.engine.service import Service, ServicePart
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.settling.death_calls import DeathCalls
from headrace.engine.upkeep.dead_dropping import DeadDropping
from headrace.engine.upkeep.heartbeat import Heartbeat, WorkerDescription
from headrace.engine.upkeep.lease_renewal import LeaseRenewal
from headrace.engine.upkeep.process_pulse import ProcessPulse
from headrace.engine.upkeep.progress import ProgressWriter
from headrace.engine.upkeep.promotion import Promotion
from headrace.engine.upkeep.pruning import Pruning
from headrace.engine.upkeep.recovery import LeaseRecovery
from headrace.engine.upkeep.topic_keeping import TopicKeeping

from .parts import ClaimParts, IntakeParts, RunningParts, SettlingParts, UpkeepParts
from .plan import WorkerPlan, crash_limits_of


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
    beside = [Stream("queue", name) for name in plan.registry.limits.queues_beside(plan.options.queues)]
    recovery = LeaseRecovery(
        store,
        served,
        leases=claims.leases,
        emitter=emitter,
        pulse=pulse,
        beside=beside,
        crash_limits=crash_limits_of(plan, (*claims.served.queues, *beside)).in_store,
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
