"""Bars and rates."""

from __future__ import annotations

import time

import pytest

from headrace.admin import Traffic
from headrace.cli.output.render import meter
from headrace.cli.watch.state import Rates
from headrace.cli.watch.view import sparkline


def test_a_quiet_hour_is_a_line() -> None:
    assert sparkline((0,) * 60, 10, "green").plain == "▁" * 10
    assert sparkline((), 10, "green").plain == "▁" * 10


def test_the_highest_is_as_high_as_it_goes_and_one_is_seen_beside_a_million() -> None:
    assert sparkline((0, 1, 500_000, 1_000_000), 4, "green").plain == "▁▂▅█"


def test_minutes_are_gathered_where_there_is_less_room() -> None:
    counts = (0,) * 54 + (1,) * 6
    assert sparkline(counts, 60, "green").plain == "▁" * 54 + "█" * 6
    assert sparkline(counts, 10, "green").plain == "▁" * 9 + "█"
    assert sparkline(counts, 30, "green").plain == "▁" * 27 + "█" * 3


def test_nothing_is_dim_and_something_is_coloured() -> None:
    graph = sparkline((0, 1), 2, "red")
    assert [str(span.style) for span in graph.spans] == ["dim", "red"]


def test_what_mostly_failed_is_red() -> None:
    graph = sparkline((10, 10, 10, 0), 4, "green", bad=(0, 4, 5, 0))
    assert graph.plain == "███▁"
    assert [str(span.style) for span in graph.spans] == ["green", "green", "red", "dim"]


def test_a_meter_shows_little_as_something_and_too_much_as_all() -> None:
    assert [meter(part, 4, "").plain for part in (0, 0.01, 0.5, 1, 2)] == [
        "░░░░",
        "█░░░",
        "██░░",
        "████",
        "████",
    ]


def test_a_rate_counts_what_belongs_to_the_last_sixty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 6015.0)  # a quarter of a minute has passed
    assert Rates().per_second((7, 120, 30)) == (30 + 120 * 0.75) / 60
    assert Rates().per_second(()) == 0


def test_the_minute_is_that_of_the_store_once_one_is_seen_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: 6059.9)  # our clock: nothing of the last minute counts
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    measured = Rates()
    measured.update([Traffic("queue", "a", (0, 5, 60), (), ())])
    measured.update([Traffic("queue", "a", (0, 5, 65), (), ())])
    assert measured.per_second((60, 0)) == pytest.approx(0, abs=0.01)
    measured.update([Traffic("queue", "a", (5, 65, 0), (), ())])
    assert measured.per_second((60, 0)) == 1
    now[0] += 30
    assert measured.per_second((60, 0)) == 0.5
