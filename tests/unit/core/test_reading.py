"""Where a reader goes on that did not take everything it was given."""

from __future__ import annotations

import pytest

from headrace.core.topics import LogEntry, Places, Reading, number_in_one_log, total


def _entry(number: int, part: str = "") -> LogEntry:
    return LogEntry(number, f"{part}{number}", "placed", b"", number, part=part)


def test_whoever_takes_everything_goes_on_where_the_reading_says() -> None:
    assert Reading((_entry(5), _entry(6)), 6).after(2) == 6
    assert Reading((), 4).after(0) == 4


def test_whoever_takes_some_goes_on_with_the_first_that_is_left() -> None:
    reading = Reading((_entry(5), _entry(6), _entry(7)), 7)
    assert [reading.after(count) for count in (0, 1, 2)] == [4, 5, 6]


def test_in_several_parts_each_goes_on_with_its_first_that_is_left() -> None:
    entries = (_entry(3, "a"), _entry(8, "b"), _entry(4, "a"), _entry(9, "b"))
    reading = Reading(entries, Places({"a": 4, "b": 9, "c": 1}))
    assert reading.after(4) == reading.position
    assert reading.after(3) == Places({"a": 4, "b": 8, "c": 1})
    assert reading.after(1) == Places({"a": 3, "b": 7, "c": 1})
    assert reading.after(0) == Places({"a": 2, "b": 7, "c": 1})


def test_the_total_of_a_position_is_over_all_parts() -> None:
    assert total(7) == 7
    assert total(Places({"a": 2, "b": 3})) == 5


def test_places_in_several_logs_are_none_in_one() -> None:
    assert number_in_one_log(3) == 3
    with pytest.raises(TypeError, match="several logs"):
        number_in_one_log(Places({"a": 1}))
