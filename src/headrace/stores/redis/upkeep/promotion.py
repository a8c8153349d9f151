"""Queues scheduled and retrying messages that are due, of many queues at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf

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

#: As in lua/shared/quiet_queue.lua: microseconds between two looks for what was deleted by hand, and the
#: letters of lines among the lanes in use.
MEND_EVERY = 3 * SECOND
LINES = b"abcdefghij"

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
        answer = None if is_topic else await _quiet(store, queue)
        answer = answer or _Answer(*await store.run(call))
    except BackendUnavailable as error:
        return error
    queue.has_scheduled = answer.next_in_us >= 0
    return answer


async def _quiet(store: RedisServer, queue: StreamScripts) -> _Answer | None:
    """What the script would answer if it has nothing to do, found with plain commands; None: it may have."""
    if queue.has_scheduled:
        return await _nothing_due(store, queue)
    # An idle worker comes by every few seconds: let that cost two plain commands.
    is_waiting, promotions = await store.commands(
        ("EXISTS", *queue.waiting), ("HGET", queue.keys.meta, "promotions"), queue=queue
    )
    return None if is_waiting else _Answer(0, -1, 0, _number(promotions))


async def _nothing_due(store: RedisServer, queue: StreamScripts) -> _Answer | None:
    """The answer when nothing is due, without a script. In a large fleet, most workers ask when another one
    has promoted already."""
    keys = queue.keys
    scores = (0, 0, "WITHSCORES")
    *agendas, lanes, mended, promotions, time = await store.commands(
        ("ZRANGE", keys.due, *scores),
        ("ZRANGE", keys.retry, *scores),
        *(("HGET", keys.meta, field) for field in ("lanes", "mended", "promotions")),
        ("TIME",),
        queue=queue,
    )
    now = int(time[0]) * SECOND + int(time[1]) + queue.offset_us()
    first = min((float(agenda[1]) for agenda in agendas if agenda), default=inf)
    is_mended = queue.stream.kind == "group" or 0 <= now - _number(mended) < MEND_EVERY
    has_lines = set(lanes or b"") & set(LINES)
    if not now < first < inf or not is_mended or has_lines:
        return None
    return _Answer(0, int(first) - now, 0, _number(promotions))


def _number(text: bytes | None) -> int:
    """The number in a field. Another program may have written anything."""
    return int(text) if text and text.isdigit() else 0
