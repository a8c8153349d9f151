"""Builds the records of topics, their logs and their groups."""

from __future__ import annotations

import msgspec

from headrace.core.records.record import JobStatus
from headrace.core.topics.topic import GroupRecord, LogEntry, Reading, TopicRecord
from headrace.stores.memory.streams.group_state import GroupState
from headrace.stores.memory.streams.log import StoredEvent, TopicLog
from headrace.stores.memory.streams.topic_state import TopicState

from .views import counts_of


def reading_of(log: TopicLog, after: int, limit: int, now_us: int) -> Reading:
    entries = tuple(_log_entry(event) for event in log.some_after(after, limit))
    return Reading(entries, entries[-1].number if entries else after, now_us)


def record_of_topic(topic: TopicState, now_us: int) -> TopicRecord:
    log = topic.log
    return TopicRecord(
        topic.stream,
        topic.rules,
        first=log.first,
        last=log.last,
        first_us=log.first_us,
        last_us=log.last_us,
        scheduled=topic.due_messages.count(JobStatus.SCHEDULED),
        groups=tuple(_record_of_group(topic.groups[name], now_us) for name in sorted(topic.groups)),
    )


def _record_of_group(group: GroupState, now_us: int) -> GroupRecord:
    return GroupRecord(
        group.stream,
        group.position,
        group.lag(),
        msgspec.structs.replace(counts_of(group, now_us), queued=group.drawn()),
        oldest_us=group.oldest_written_us(),
        seen_us=group.seen_us,
        ordered=group.ordered,
    )


def _log_entry(event: StoredEvent) -> LogEntry:
    message = event.message
    return LogEntry(
        event.number,
        message.id,
        message.task,
        message.body,
        event.at_us,
        expires_us=event.expires_us,
        key=message.key,
    )
