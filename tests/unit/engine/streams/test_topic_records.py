"""What the parts of a topic tell, as of one."""

from __future__ import annotations

from headrace.core.messages.message import Stream, group_stream
from headrace.core.records.record import Counts
from headrace.core.topics.topic import GroupRecord, KeptTopics, TopicRecord, TopicRules
from headrace.engine.streams.whole_names import merged_kept, merged_topic

TOPIC = Stream("topic", "orders")


def _part(name: str, *groups: GroupRecord, first: int = 1, last: int = 0, at_us: int = 0) -> TopicRecord:
    return TopicRecord(
        Stream("topic", name), TopicRules(), first, last, at_us, at_us + 5 if at_us else 0, groups=groups
    )


def _group(
    part: str, name: str, position: int = 0, lag: int = 0, *, queued: int = 0, dead: int = 0
) -> GroupRecord:
    return GroupRecord(group_stream(part, name), position, lag, Counts(queued=queued, dead=dead))


def test_lengths_are_added_up() -> None:
    merged = merged_topic(TOPIC, [_part("orders", first=3, last=7), _part("orders#1.0", first=1, last=2)], 2)
    assert (merged.stream, merged.length, merged.last) == (TOPIC, 7, 9)


def test_a_topic_without_events_is_empty() -> None:
    merged = merged_topic(TOPIC, [_part("orders"), _part("orders#1.0")], 2)
    assert (merged.first, merged.last, merged.length, merged.first_us) == (1, 0, 0, 0)


def test_times_are_those_of_the_first_and_the_last_of_all() -> None:
    parts = [_part("orders"), _part("a", last=1, at_us=20), _part("b", last=1, at_us=10)]
    merged = merged_topic(TOPIC, parts, 2)
    assert (merged.first_us, merged.last_us) == (10, 25)


def test_the_rules_of_the_latest_part_hold() -> None:
    latest = TopicRecord(Stream("topic", "orders#1.0"), TopicRules(max_length=5))
    assert merged_topic(TOPIC, [_part("orders"), latest], 2).rules.max_length == 5


def test_a_group_is_one_over_all_parts() -> None:
    parts = [
        _part("orders", _group("orders", "mail", 4, 0, dead=1)),
        _part("orders#1.0", _group("orders#1.0", "mail", 1, 2, queued=3), _group("orders#1.0", "billing")),
    ]
    billing, mail = merged_topic(TOPIC, parts, 2).groups
    assert (billing.stream, mail.stream) == (
        group_stream("orders", "billing"),
        group_stream("orders", "mail"),
    )
    assert (mail.lag, mail.counts.queued, mail.counts.dead) == (2, 3, 1)
    assert mail.position == 5


def test_a_group_is_paused_when_it_is_in_the_whole() -> None:
    paused = GroupRecord(group_stream("orders", "mail"), 0, 0, Counts(paused=True))
    merged = merged_topic(TOPIC, [_part("orders", paused), _part("a", _group("a", "mail"))], 2)
    assert merged.groups[0].counts.paused


def test_groups_that_hold_something_are_named_once() -> None:
    tended = KeptTopics(
        3,
        True,
        holding=(group_stream("orders", "mail"), group_stream("orders#1.0", "mail")),
        passed=(group_stream("orders#1.0", "mail"), group_stream("orders#1.0", "old")),
    )
    assert merged_kept(tended, _logical) == KeptTopics(
        3, True, (group_stream("orders", "mail"),), (group_stream("orders", "old"),)
    )


def _logical(group: Stream) -> Stream:
    return group_stream(group.topic.partition("#")[0], group.group)
