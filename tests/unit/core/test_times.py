"""Spans and times as people write and read them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.values.times import age_text, ago, parse_span, parse_start, parse_time, seconds_since, span


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of this machine is five hours behind UTC in winter, and four in summer."""
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("15m", 900), ("15 min", 900), ("2h", 7200), ("3d", 259200)],
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "3 weeks", "1e9", "99999999999", "2h ago", "٣h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00005, "50 µs"),
        (0.0123, "12 ms"),
        (0.9996, "1 s"),
        (3.14, "3.1 s"),
        (42, "42 s"),
        (119, "119 s"),
        (150, "2.5 min"),
        (300, "5 min"),
        (5400, "1.5 h"),
        (7199, "2 h"),
        (90_000, "25 h"),
        (1e6, "12 d"),
        (float("inf"), "inf d"),
    ],
)
def test_spans_are_shown_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_time_is_ago_or_ahead() -> None:
    now = datetime.now(UTC)
    assert ago(None) == ""
    assert ago(now, now) == "now"
    assert ago(now - timedelta(minutes=5)) == "5 min ago"
    assert ago(now + timedelta(minutes=5, seconds=1)) == "in 5 min"


def test_an_age_is_never_negative() -> None:
    assert (seconds_since(None), age_text(None)) == (None, "")
    assert seconds_since(datetime.now(UTC) + timedelta(hours=1)) == 0
    assert age_text(datetime.now(UTC) - timedelta(hours=2)) == "2 h"


@pytest.mark.parametrize("text", ["2h", "2h ago", " 2 h ago "])
def test_a_span_is_a_time_before_now(text: str) -> None:
    before = parse_time(text, UTC)
    assert abs(datetime.now(UTC) - timedelta(hours=2) - before) < timedelta(seconds=10)


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize(
    ("text", "here", "utc"),
    [
        ("2026-03-01 10:00", 15, 10),
        ("2026-07-01T10:00", 14, 10),
        ("2026-03-01T10:00Z", 10, 10),
        ("2026-03-01T10:00+02:00", 8, 8),
    ],
)
def test_a_time_without_a_zone_is_in_the_zone_of_its_reader(text: str, here: int, utc: int) -> None:
    assert parse_time(text, None).hour == here
    assert parse_time(text, UTC).hour == utc
    assert parse_start(text, None) == parse_time(text, None)
    assert parse_time(text, None).tzinfo is UTC


@pytest.mark.parametrize("text", ["new", "beginning", "01m7fky1c1fw8vs4pmxwj7rctd"])
def test_a_start_may_be_a_word_or_an_event(text: str) -> None:
    assert parse_start(text, UTC) == text


@pytest.mark.parametrize("text", ["", "yesterday", "ago", "2026-13-01", "0001-01-01T00:00+23:00"])
def test_what_is_no_time_is_refused_with_the_zone_that_would_hold(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no time: write 15m, .* 2026-03-01 10:00 UTC$"):
        parse_time(text, UTC)
    with pytest.raises(ConfigurationError, match=r"is no time: write new, .* 2026-03-01 10:00$"):
        parse_start(text, None)


@pytest.mark.parametrize("text", ["90", "1.5", "2026", "90 ago"])
def test_a_number_without_a_unit_is_no_time(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"has no unit: write 15m, 2h or 3d \(ago\), .* UTC$"):
        parse_time(text, UTC)
    with pytest.raises(ConfigurationError, match="has no unit: write new, beginning"):
        parse_start(text, None)
