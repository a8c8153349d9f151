"""What a store holds besides plain jobs: limits, tenants, order keys, an outbox, a history, parts, pauses."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.history.ended_job import EndedJob, encode_ended
from headrace.core.history.entry import HistoryEntry
from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.paused_tasks import pause_of
from headrace.core.limits.rate import Rate
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import NO_CONSTRAINTS, Constraints, LimitKey
from headrace.core.messages.message import (
    ENVELOPE_VERSION,
    FRESH,
    Batch,
    Envelope,
    Message,
    Stream,
    UniqueKey,
    encode_envelope,
)
from headrace.core.messages.outcome import Done, Kept, Outcome, Retry, Settlement
from headrace.core.messages.outgoing import Outgoing
from headrace.core.runtime.clock import microseconds
from headrace.core.store import PartitionedStore
from headrace.engine.streams import StreamRouter

WORK, OTHER = Stream("queue", "work"), Stream("queue", "other")
PAUSED, PARTED = Stream("queue", "paused"), Stream("queue", "parted")

#: Healthy jobs with constraints, in each of the queues `work` and `other`.
CONSTRAINED = ("limited", "of-tenant", "ordered-1", "ordered-2", "forwarded")


def job(id: str, **options: Any) -> Message:
    payload = msgspec.msgpack.encode([[id]])
    return Message(
        id, "note", encode_envelope(Envelope(ENVELOPE_VERSION, id, "note", 1, None, None, payload)), **options
    )


async def append(backend: StreamRouter, stream: Stream, *messages: Message) -> list[str]:
    await backend.append(Batch(stream, f"by-{messages[0].id}", 1, list(messages)))
    return [message.id for message in messages]


async def claim(backend: StreamRouter, stream: Stream, consumer: str = "gone") -> list[Claim]:
    return await backend.claim([stream], consumer=consumer, limit=10, suspects=1, wait=0)


async def end(backend: StreamRouter, stream: Stream, message: Message, outcome: Outcome) -> None:
    await append(backend, stream, message)
    [held] = await claim(backend, stream)
    await backend.settle([Settlement(held, outcome)])


async def declare_limits(backend: StreamRouter) -> None:
    often = Rate.parse("1000/s", 100)
    await backend.declare_limits(
        [
            LimitFigures("healthy-limit", 5, often),
            LimitFigures("victim-limit", 5, often),
            LimitFigures("victim-customer", 1),
            LimitFigures("victim-slow", None, Rate.parse("1/d")),
            pause_of("victim-task", paused=True),
        ]
    )
    await backend.set_limit("victim-limit", LimitFigures("victim-limit", 4))


async def hold_constrained(backend: StreamRouter) -> None:
    """Have a worker that is gone hold victims. Others wait behind them, for a slot, a token and a key."""
    keyed = Constraints((LimitKey("victim-limit"), LimitKey("victim-customer", "7")), "victim-tenant")
    slow = Constraints((LimitKey("victim-slow"), LimitKey("healthy-limit")))
    for number in (1, 2):
        await append(backend, WORK, job(f"victim-limited-{number}", constraints=keyed))
        await append(backend, WORK, job(f"victim-slow-{number}", constraints=slow))
        await append(
            backend, WORK, job(f"victim-ordered-{number}", key="victim-key", constraints=NO_CONSTRAINTS)
        )
    assert len(await claim(backend, WORK)) == 3
    retried = job("victim-limited-again", constraints=Constraints((LimitKey("victim-limit"),)))
    await end(backend, WORK, retried, Retry(FRESH, microseconds(20)))
    await append(backend, PAUSED, job("victim-paused"))
    await backend.pause(PAUSED, paused=True)


async def end_recorded(backend: StreamRouter, stream: Stream, name: str) -> None:
    """A job that left an entry in the history, a kept result, and a message under way in the outbox."""
    message = job(f"{name}-recorded")
    await append(backend, stream, message)
    [held] = await claim(backend, stream)
    content = encode_ended(EndedJob(message.body, 1, "gone"))
    entry = HistoryEntry(message.id, "note", "succeeded", 2, content)
    forwarded = Outgoing(stream, job(f"{name}-forwarded"))
    outcome = Done(Kept(b"\x07", microseconds(3600), "fine"))
    await backend.settle([Settlement(held, outcome, (forwarded,), entry)])
    # A relay that is gone has begun to hand it on.
    await backend.take_outgoing([stream], relay="gone", limit=1, hold_us=1)


async def append_constrained(backend: StreamRouter, stream: Stream, name: str) -> None:
    limited = Constraints((LimitKey("healthy-limit"),))
    of_tenant = Constraints((), f"{name}-tenant")
    ordered = [job(f"{name}-ordered-{number}", key=f"{name}-key", constraints=of_tenant) for number in (1, 2)]
    await append(
        backend,
        stream,
        job(f"{name}-limited", constraints=limited),
        job(f"{name}-of-tenant", constraints=of_tenant),
        *ordered,
    )


async def append_victims(backend: StreamRouter) -> None:
    await append(
        backend,
        WORK,
        job("victim-open", constraints=Constraints((LimitKey("victim-limit"),), "victim-tenant")),
        job("victim-key-1", key="victim-key-2", constraints=NO_CONSTRAINTS),
        job(
            "victim-debounced",
            delay_us=microseconds(20),
            unique=UniqueKey("victim-debounce", "started"),
            on_duplicate="replace",
        ),
    )
    if isinstance(backend.store, PartitionedStore):
        await backend.split(PARTED, 2)
    await append(backend, PARTED, *(job(f"victim-part-{number}") for number in range(4)))
