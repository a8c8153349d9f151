"""Reading the parts of a topic as one, and where a start lies in each of them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.topics.position import Position, TopicReading
from headrace.core.topics.topic import BEGINNING, NEW, LogEntry, Reading, Start
from headrace.engine.streams.topic_reader import merged_reading, places_of, starts_in_parts

PARTS = ("orders#1.0", "orders#1.1")


def _entry(number: int, at_us: int) -> LogEntry:
    return LogEntry(number, "id", "placed", b"", at_us)


def _reading(*entries: LogEntry, position: int = 0, now_us: int = 100) -> Reading:
    return Reading(entries, entries[-1].number if entries else position, now_us)


def numbered(reading: TopicReading) -> list[tuple[str, int]]:
    """The part and the number of each event."""
    return [(part, entry.number) for part, entry in zip(reading.parts, reading.entries, strict=True)]


# --- places -----------------------------------------------------------------------------------------------


def test_a_position_from_before_the_topic_had_parts_is_their_beginning() -> None:
    assert places_of(Position({"orders": 7}), PARTS) == {"orders#1.0": 0, "orders#1.1": 0}


def test_a_part_that_is_not_named_is_read_from_its_beginning() -> None:
    assert places_of(Position({"orders#1.0": 3, "other": 5}), PARTS) == {"orders#1.0": 3, "orders#1.1": 0}


# --- starts -----------------------------------------------------------------------------------------------


def test_most_starts_mean_the_same_everywhere() -> None:
    for start in (NEW, BEGINNING, Start("time", time_us=7)):
        assert starts_in_parts(start, PARTS, {}) == dict.fromkeys(PARTS, start)


def test_an_event_is_a_time_for_the_parts_that_do_not_have_it() -> None:
    start = Start("event", event="e")
    assert starts_in_parts(start, PARTS, {"orders#1.1": _entry(4, 70)}) == {
        "orders#1.0": Start("time", time_us=70),
        "orders#1.1": start,
    }


# --- merging ----------------------------------------------------------------------------------------------


def test_parts_are_read_by_time() -> None:
    readings = {"a": _reading(_entry(1, 10), _entry(2, 40)), "b": _reading(_entry(1, 20), _entry(2, 30))}
    merged = merged_reading(readings, 10)
    assert numbered(merged) == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert (merged.position, merged.now_us) == (Position({"a": 2, "b": 2}), 100)


def test_what_does_not_fit_is_read_again() -> None:
    readings = {"a": _reading(_entry(1, 10), _entry(2, 40)), "b": _reading(_entry(5, 20), _entry(6, 30))}
    merged = merged_reading(readings, 2)
    assert numbered(merged) == [("a", 1), ("b", 5)]
    assert merged.position == Position({"a": 1, "b": 5})


def test_a_part_of_which_nothing_is_taken_goes_on_with_its_first() -> None:
    readings = {"a": _reading(_entry(1, 10)), "b": _reading(_entry(5, 20))}
    merged = merged_reading(readings, 1)
    assert merged.position == Position({"a": 1, "b": 4})


def test_nothing_is_read_where_nothing_is() -> None:
    merged = merged_reading({"a": _reading(position=7), "b": _reading(position=2)}, 10)
    assert (merged.entries, merged.position) == ((), Position({"a": 7, "b": 2}))


@given(
    st.lists(st.lists(st.integers(1, 20), max_size=8).map(sorted), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(0, 5),
)
def test_page_by_page_everything_is_read_once_and_by_time(
    times: list[list[int]], limit: int, room: int
) -> None:
    logs = {f"p{part}": [_entry(n, at) for n, at in enumerate(each, 1)] for part, each in enumerate(times)}
    places = dict.fromkeys(logs, 0)
    seen: list[LogEntry] = []
    numbers: list[tuple[str, int]] = []
    for _ in range(100):
        readings = {part: _page(logs, part, places, limit) for part in logs}
        merged = merged_reading(readings, limit)
        taken = max(1, room)  # the reader has less room than its limit
        seen += merged.entries[:taken]
        numbers += numbered(merged)[:taken]
        places = places_of(merged.after(min(taken, len(merged.entries))), list(logs))
    assert [entry.at_us for entry in seen] == sorted(at for each in times for at in each)
    assert sorted(numbers) == [(part, entry.number) for part in sorted(logs) for entry in logs[part]]


def _page(logs: Mapping[str, list[LogEntry]], part: str, places: Mapping[str, int], limit: int) -> Reading:
    entries = tuple(logs[part][places[part] : places[part] + limit])
    return Reading(entries, entries[-1].number if entries else places[part])
