"""What a store says about parts, as it is said of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.core.backend import Promoted, Reclaimed, Recovery
from headrace.core.layout import whole_stream
from headrace.core.message import Source, Stream
from headrace.core.orders import (
    CancelOrder,
    DueOrder,
    LayoutOrder,
    LeaseOrder,
    MissedOrder,
    Order,
    PauseOrder,
    ScheduleOrder,
    Standing,
)
from headrace.core.record import Counts, Record, WorkerInfo


def order_of_whole(order: Order) -> Order | None:
    """None: it is said of the whole as well, by an order of its own, or concerns nobody outside."""
    if isinstance(order, MissedOrder):
        return order
    whole = whole_stream(order.stream)
    if whole == order.stream:
        return None if isinstance(order, LayoutOrder) else order
    match order:
        case CancelOrder(id=id):
            return CancelOrder(whole, id)
        case DueOrder():
            return DueOrder(whole)
        case LayoutOrder() | LeaseOrder() | PauseOrder() | ScheduleOrder():
            return None


def promoted_of_whole(promoted: Promoted) -> Promoted:
    if promoted.by_stream is None:
        return promoted
    due_in_us: dict[Stream, int] = {}
    for part, in_us in promoted.by_stream.items():
        whole = whole_stream(part)
        due_in_us[whole] = min(in_us, due_in_us.get(whole, in_us))
    return msgspec.structs.replace(promoted, by_stream=due_in_us)


def recovered_of_whole(reclaimed: Reclaimed) -> Reclaimed:
    return msgspec.structs.replace(reclaimed, recovered=tuple(map(_recovery, reclaimed.recovered)))


def _recovery(recovery: Recovery) -> Recovery:
    source = Source(whole_stream(recovery.source.stream))
    return msgspec.structs.replace(recovery, source=source)


def standing_of_whole(standing: Standing) -> Standing:
    """A stream is paused, and has its lease, where it is whole; its parts follow."""
    return Standing(
        paused=frozenset(stream for stream in standing.paused if whole_stream(stream) is stream),
        leases={stream: us for stream, us in standing.leases.items() if whole_stream(stream) is stream},
    )


def worker_with_parts(worker: WorkerInfo, streams: Iterable[Stream]) -> WorkerInfo:
    """So that the store says of each part how it stands."""
    streams = list(streams)
    queues = tuple(stream.name for stream in streams if stream.kind == "queue")
    groups = tuple(stream.name for stream in streams if stream.kind == "group")
    return msgspec.structs.replace(worker, queues=queues, groups=groups)


def worker_of_whole(worker: WorkerInfo) -> WorkerInfo:
    wholes = list(dict.fromkeys(map(whole_stream, worker.streams)))
    return worker if wholes == worker.streams else worker_with_parts(worker, wholes)


def record_of_whole(record: Record | None) -> Record | None:
    if record is None or whole_stream(record.stream) is record.stream:
        return record
    return msgspec.structs.replace(record, stream=whole_stream(record.stream))


def sum_of(counts: Sequence[Counts]) -> Counts:
    """Of all parts; the first is the stream itself, and says whether it is paused."""
    ages = [each.oldest_us for each in counts if each.oldest_us]
    return Counts(
        queued=sum(each.queued for each in counts),
        running=sum(each.running for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        retrying=sum(each.retrying for each in counts),
        dead=sum(each.dead for each in counts),
        due=sum(each.due for each in counts),
        oldest_us=min(ages, default=0),
        paused=counts[0].paused,
    )
