"""What the parts of a topic tell, told as of one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.core.message import Stream, group_stream
from headrace.core.topics import GroupRecord, Places, Tended, TopicRecord, number_in_one_log

from .orders import sum_of


def merged_topic(topic: Stream, parts: Sequence[TopicRecord], count: int) -> TopicRecord:
    """One record of the parts that were used, in their order, of so many. Each has the rules of the topic."""
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
    """What was said of the last part holds."""
    return GroupRecord(
        group,
        Places({part.stream.topic: number_in_one_log(part.position) for part in parts}),
        sum(part.lag for part in parts),
        sum_of([part.counts for part in parts]),
        oldest_us=earliest(part.oldest_us for part in parts),
        seen_us=max(part.seen_us for part in parts),
        ordered=parts[-1].ordered,
    )


def merged_tended(tended: Tended, logical: Callable[[Stream], Stream]) -> Tended:
    """With the groups of parts named as the groups that they are of, each once."""
    holding = tuple(dict.fromkeys(map(logical, tended.holding)))
    return Tended(
        tended.trimmed,
        tended.more,
        holding,
        # In one part nothing is kept for its sake any more, in another something may be still.
        tuple(each for each in dict.fromkeys(map(logical, tended.passed)) if each not in holding),
        tuple(dict.fromkeys(map(logical, tended.disputed))),
        tuple(dict.fromkeys(map(logical, tended.stalled))),
    )


def earliest(times: Iterable[int]) -> int:
    """The first of times of which 0 is none."""
    return min((time for time in times if time), default=0)
