"""What a worker is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from headrace.core.messages.message import Stream
from headrace.core.store import CRASH_LIMIT
from headrace.core.topics.topic import TopicRules
from headrace.engine.declared.registry import Registry
from headrace.engine.declared.subscription import Subscription
from headrace.engine.emitter import Emitter
from headrace.engine.relaying.outbox_source import OutboxSource
from headrace.engine.streams import StreamRouter

from .options import WorkerOptions

#: A number of crashes that no message reaches.
NO_LIMIT: Final = 1 << 31


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


class CrashLimits(NamedTuple):
    """Where crash limits apply: in the store that recovers a message, or in the worker that claims it."""

    in_store: dict[Stream, int]
    at_claim: dict[Stream, int]


def crash_limits_of(plan: WorkerPlan, queues: Sequence[Stream]) -> CrashLimits:
    """The crash limits of the queues that declare one. The deaths of a queue with `on_dead` are written with
    a call. So there the store recovers a message at its limit too, and the worker that claims it next makes
    it a dead letter."""
    declared = [(queue, plan.registry.declared_queues.get(queue.name)) for queue in queues]
    limits = {queue: options.crash_limit for queue, options in declared if options is not None}
    calling = [queue for queue in limits if queue.name in plan.registry.death_tasks]
    in_store = {queue: most for queue, most in limits.items() if most is not None}
    return CrashLimits(
        in_store=in_store | dict.fromkeys(calling, NO_LIMIT),
        at_claim={queue: limits[queue] or CRASH_LIMIT for queue in calling},
    )
