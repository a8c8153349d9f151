"""Where a reader goes on that did not take everything it was given."""

from __future__ import annotations

from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import LogEntry, Reading


def _entry(number: int) -> LogEntry:
    return LogEntry(number, str(number), "placed", b"", number)


def _reading(*numbers: int, position: int) -> TopicReading:
    entries = tuple(map(_entry, numbers))
    return TopicReading(entries, Position({"orders": position}), ("orders",) * len(entries))


def test_a_reader_that_takes_everything_goes_on_where_the_reading_says() -> None:
    assert _reading(5, 6, position=6).after(2) == Position({"orders": 6})
    assert _reading(position=4).after(0) == Position({"orders": 4})


def test_a_reader_that_takes_some_goes_on_with_the_first_that_is_left() -> None:
    reading = _reading(5, 6, 7, position=7)
    assert [reading.after(count).total for count in (0, 1, 2)] == [4, 5, 6]


def test_in_several_parts_each_goes_on_with_its_first_that_is_left() -> None:
    entries = tuple(map(_entry, (3, 8, 4, 9)))
    reading = TopicReading(entries, Position({"a": 4, "b": 9, "c": 1}), ("a", "b", "a", "b"))
    assert reading.after(4) == reading.position
    assert reading.after(3) == Position({"a": 4, "b": 8, "c": 1})
    assert reading.after(1) == Position({"a": 3, "b": 7, "c": 1})
    assert reading.after(0) == Position({"a": 2, "b": 7, "c": 1})


def test_a_reader_of_one_log_that_takes_nothing_goes_on_before_the_first() -> None:
    assert Reading((_entry(5), _entry(6)), 6).begun_after == 4
    assert Reading((), 4).begun_after == 4


def test_the_total_of_a_position_is_over_all_parts() -> None:
    assert Position({"a": 2, "b": 3}).total == 5


def test_a_part_that_is_not_named_is_at_its_beginning() -> None:
    assert Position({"a": 2}).number_in("b") == 0
