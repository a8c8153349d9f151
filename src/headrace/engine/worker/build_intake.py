"""Builds what brings new work to a worker."""

from __future__ import annotations

from functools import partial

from headrace.core.runtime.clock import microseconds
from headrace.engine.intake.fairness import SlotFairness
from headrace.engine.intake.group_reader import EventParts
from headrace.engine.intake.queue_reader import QueueReader, ReaderParts
from headrace.engine.intake.slotted_reader import SlottedReader
from headrace.engine.intake.subscriptions import Subscriptions
from headrace.engine.upkeep.schedule_runner import ScheduleRunner

from .parts import ClaimParts, IntakeParts, RunningParts, SettlingParts
from .plan import WorkerPlan, crash_limits_of


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
        crash_limits=crash_limits_of(plan, claims.served.queues).at_claim,
    )
    claims.readers.add(reader, queues)
    return (reader,)
