"""Turns a store's answers about parts into answers about the whole stream, with its name and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.answers import Promoted, Reclaimed, Recovery
from headrace.core.records.control import (
    CancelNotice,
    ControlMessage,
    ControlState,
    DueNotice,
    LayoutNotice,
    LeaseNotice,
    MissedNotice,
    PauseNotice,
    ScheduleNotice,
)
from headrace.core.records.record import Counts, DeadLetter, Record, WorkerInfo
from headrace.core.rules.layout import whole_stream
from headrace.core.topics.topic import GroupRecord, KeptTopics, TopicRecord


def message_of_whole(message: ControlMessage) -> ControlMessage | None:
    """The control message for the whole stream. None: the whole stream gets its own message, or only the
    router needs it."""
    if isinstance(message, MissedNotice):
        return message
    whole = whole_stream(message.stream)
    if whole == message.stream:
        return None if isinstance(message, LayoutNotice) else message
    match message:
        case CancelNotice(id=id):
            return CancelNotice(whole, id)
        case DueNotice():
            return DueNotice(whole)
        case LayoutNotice() | LeaseNotice() | PauseNotice() | ScheduleNotice():
            return None


def promoted_of_whole(promoted: Promoted) -> Promoted:
    if promoted.by_stream is None:
        return promoted
    due_in_us: dict[Stream, int] = {}
    for part, in_us in promoted.by_stream.items():
        whole = whole_stream(part)
        due_in_us[whole] = min(in_us, due_in_us.get(whole, in_us))
    promotions = Counter[Stream]()
    for part, number in (promoted.promotions or {}).items():
        promotions[whole_stream(part)] += number
    return msgspec.structs.replace(promoted, by_stream=due_in_us, promotions=promotions)


def recovered_of_whole(reclaimed: Reclaimed) -> Reclaimed:
    return msgspec.structs.replace(reclaimed, recovered=tuple(map(_recovery, reclaimed.recovered)))


def _recovery(recovery: Recovery) -> Recovery:
    return msgspec.structs.replace(recovery, stream=whole_stream(recovery.stream))


def state_of_whole(state: ControlState) -> ControlState:
    """The state of whole streams. The pause and the lease of a stream are its own; its parts follow it."""
    return ControlState(
        paused=frozenset(stream for stream in state.paused if whole_stream(stream) is stream),
        leases={stream: us for stream, us in state.leases.items() if whole_stream(stream) is stream},
        moved_to=state.moved_to,
        paused_tasks=state.paused_tasks,
    )


def worker_with_parts(worker: WorkerInfo, streams: Iterable[Stream]) -> WorkerInfo:
    """The worker with all its parts, so that the store returns the state of each part."""
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


def letter_of_whole(letter: DeadLetter, stream: Stream) -> DeadLetter:
    if stream.kind == "queue":
        return msgspec.structs.replace(letter, queue=stream.name)
    return msgspec.structs.replace(letter, topic=stream.topic)


def sum_of(counts: Sequence[Counts]) -> Counts:
    """The sum of all parts. The first is the stream itself, which holds the pause."""
    ages = [each.oldest_us for each in counts if each.oldest_us]
    return Counts(
        queued=sum(each.queued for each in counts),
        running=sum(each.running for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        retrying=sum(each.retrying for each in counts),
        dead=sum(each.dead for each in counts),
        due=sum(each.due for each in counts),
        oldest_us=min(ages, default=0),
        paused=any(each.paused for each in counts),  # a pause or its end may be interrupted between parts
    )


def merged_topic(topic: Stream, parts: Sequence[TopicRecord], count: int) -> TopicRecord:
    """One record from the used parts, in their message; `count` is the number of all parts. Each part has the
    rules of the topic."""
    filled = [part for part in parts if part.length]
    last = sum(part.last for part in parts)
    return TopicRecord(
        topic,
        parts[-1].rules,
        first=last - sum(part.length for part in parts) + 1,
        last=last,
        first_us=earliest(part.first_us for part in filled),
        last_us=max((part.last_us for part in filled), default=0),
        scheduled=sum(part.scheduled for part in parts),
        groups=_merged_groups(topic, parts),
        parts=count,
    )


def _merged_groups(topic: Stream, parts: Sequence[TopicRecord]) -> tuple[GroupRecord, ...]:
    by_name: dict[str, list[GroupRecord]] = {}
    for part in parts:
        for record in part.groups:
            by_name.setdefault(record.stream.group, []).append(record)
    return tuple(
        merged_group(group_stream(topic.name, name), records) for name, records in sorted(by_name.items())
    )


def merged_group(group: Stream, parts: Sequence[GroupRecord]) -> GroupRecord:
    """One record from the parts of a group. `ordered` is that of the last part."""
    return GroupRecord(
        group,
        sum(part.position for part in parts),
        sum(part.lag for part in parts),
        sum_of([part.counts for part in parts]),
        oldest_us=earliest(part.oldest_us for part in parts),
        seen_us=max(part.seen_us for part in parts),
        ordered=parts[-1].ordered,
    )


def merged_kept(kept: KeptTopics, logical: Callable[[Stream], Stream]) -> KeptTopics:
    """The answer with the names of whole groups in place of those of their parts, each once."""
    holding = tuple(dict.fromkeys(map(logical, kept.holding)))
    return KeptTopics(
        kept.trimmed,
        kept.more,
        holding,
        # One part may keep nothing for the group any more, while another part still does.
        tuple(each for each in dict.fromkeys(map(logical, kept.passed)) if each not in holding),
        tuple(dict.fromkeys(map(logical, kept.disputed))),
        tuple(dict.fromkeys(map(logical, kept.stalled))),
    )


def earliest(times: Iterable[int]) -> int:
    """The earliest of these times. 0 stands for no time."""
    return min((time for time in times if time), default=0)
