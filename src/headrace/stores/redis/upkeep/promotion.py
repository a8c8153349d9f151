"""Queues scheduled and retrying messages that are due, of many queues at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Promoted
from headrace.core.runtime.clock import SECOND
from headrace.stores.redis.scripts import ISSUE_DUE_EVENTS, PROMOTE
from headrace.stores.redis.server.server import RedisServer
from headrace.stores.redis.stream_scripts import StreamScripts

#: Bytes of bodies that one step of promotion moves.
PROMOTE_BYTES = 1 << 20

#: Queues that are promoted at the same time.
PROMOTE_AT_ONCE = 32

#: Microseconds until the next attempt for a queue that could not be reached.
RETRY_AFTER = SECOND


class _Answer(msgspec.Struct, frozen=True):
    """What promote.lua answers about one stream."""

    count: int
    next_in_us: int
    limits: int
    promotions: int


async def promote(store: RedisServer, streams: Sequence[Stream], limit: int) -> Promoted:
    """Queue what is due. A queue that cannot be reached does not stop the others."""
    promoted = limits = 0
    waits: dict[StreamScripts, int] = {}
    promotions: dict[Stream, int] = {}
    errors: list[BackendUnavailable] = []
    queues = [store.queue(stream) for stream in streams]
    while queues and promoted < limit:
        # Many at once: for a queue with many parts, one round trip after the other would be too slow.
        some = queues[: min(PROMOTE_AT_ONCE, limit - promoted)]
        share = (limit - promoted) // len(some)
        queues = queues[len(some) :]
        answers = await asyncio.gather(*[_promote(store, queue, share) for queue in some])
        for queue, answer in zip(some, answers, strict=True):
            if isinstance(answer, BackendUnavailable):
                store.pass_over(queue, answer)
                errors.append(answer)
                waits[queue] = RETRY_AFTER
                continue
            promoted += answer.count
            limits += answer.limits
            waits[queue] = answer.next_in_us
            if answer.promotions >= 0:
                promotions[queue.stream] = answer.promotions
            queues += [queue] if answer.count and not answer.next_in_us else []  # more of it is due
    if errors and len(errors) == len(streams):
        raise errors[0]
    due_in_us = {queue.stream: in_us for queue, in_us in waits.items() if in_us >= 0}
    due_in_us.update((queue.stream, 0) for queue in queues)  # the limit left no room for them
    return Promoted(promoted, min(due_in_us.values(), default=None), due_in_us, limits, promotions)


async def _promote(store: RedisServer, queue: StreamScripts, limit: int) -> _Answer | BackendUnavailable:
    is_topic = queue.stream.kind == "topic"
    bounds = (limit, PROMOTE_BYTES)
    call = queue.call(ISSUE_DUE_EVENTS, *bounds, "") if is_topic else queue.call(PROMOTE, *bounds)
    try:
        # An idle worker comes by every few seconds: let that cost two plain commands.
        if not is_topic:
            is_waiting, promotions = await store.commands(
                ("EXISTS", *queue.waiting), ("HGET", queue.keys.meta, "promotions"), queue=queue
            )
            if not is_waiting:
                return _Answer(0, -1, 0, int(promotions) if promotions and promotions.isdigit() else 0)
        return _Answer(*await store.run(call))
    except BackendUnavailable as error:
        return error
