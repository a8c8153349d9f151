"""The moments of schedules: cron expressions in every zone's worst hours, intervals, and what was missed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import decode_envelope
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule import (
    MOST_MISSED,
    STEP_BYTES,
    STEP_MOMENTS,
    CatchUp,
    Schedule,
    Template,
    Timing,
    check_timing,
    decode_schedule,
    due,
    encode_schedule,
    message_at,
    next_after,
)

MINUTE_US = 60 * SECOND
HOUR_US = 60 * MINUTE_US

#: Zones of every habit: an hour, half an hour or two hours, at midnight, in Ramadan, across the date line.
# fmt: off
ZONES = [
    "Africa/Cairo", "Africa/Casablanca", "Africa/Khartoum", "Africa/Juba", "Africa/Tripoli",
    "Africa/Windhoek", "America/Anchorage", "America/Argentina/Buenos_Aires", "America/Asuncion",
    "America/Bahia", "America/Bogota", "America/Caracas", "America/Chicago", "America/Denver",
    "America/Godthab", "America/Halifax", "America/Havana", "America/Los_Angeles", "America/Mexico_City",
    "America/Miquelon", "America/Montevideo", "America/New_York", "America/Port-au-Prince",
    "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "America/Tijuana", "Antarctica/Casey",
    "Antarctica/Troll", "Asia/Amman", "Asia/Baku", "Asia/Beirut", "Asia/Damascus", "Asia/Dhaka",
    "Asia/Gaza", "Asia/Jerusalem", "Asia/Karachi", "Asia/Pyongyang", "Asia/Tehran", "Asia/Yerevan",
    "Asia/Almaty", "Asia/Kamchatka", "Asia/Novosibirsk", "Asia/Ulaanbaatar", "Atlantic/Azores",
    "Atlantic/Bermuda", "Australia/Adelaide", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin",
    "Europe/Chisinau", "Europe/Dublin", "Europe/Istanbul", "Europe/London", "Europe/Minsk", "Europe/Moscow",
    "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Fiji",
    "Pacific/Norfolk", "Pacific/Tongatapu",
]
# fmt: on


#: Half an hour, two hours, at midnight, by a day: and all that a rule says of it.
ODD_ZONES = [
    "Australia/Lord_Howe", "Antarctica/Troll", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca",
    "America/Caracas", "Asia/Pyongyang", "America/Havana", "Asia/Gaza", "Pacific/Chatham",
]  # fmt: skip

#: London, New York and the odd ones in `make test`, all in `make test-more`.
EVERYWHERE = pytest.mark.parametrize(
    "name",
    [
        name
        if name in (*ODD_ZONES, "Europe/London", "America/New_York")
        else pytest.param(name, marks=pytest.mark.more)
        for name in ZONES
    ],
)


def us(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND


def at(moment_us: int, zone: str = "UTC") -> datetime:
    return datetime.fromtimestamp(moment_us // SECOND, ZoneInfo(zone))


def moments(timing: Timing, last_us: int) -> Iterator[int]:
    while (upcoming := next_after(timing, last_us)) is not None:
        yield upcoming
        last_us = upcoming


def schedule(timing: Timing, payload: bytes = b"\x91\x90") -> Schedule:
    return Schedule("nightly", "default", timing, Template("tidy", payload))


# --- local time ---------------------------------------------------------------------------------------------


@cache
def changes(name: str) -> list[datetime]:
    """Every instant from 2000 to 2037 at which clocks in a zone are moved."""
    zone, found = ZoneInfo(name), []
    day, step = datetime(2000, 1, 1, tzinfo=UTC), timedelta(days=1)
    offset = day.astimezone(zone).utcoffset()
    while day.year < 2038:
        after = (day + step).astimezone(zone).utcoffset()
        if after != offset:
            low, high = 0, 1440
            while high - low > 1:
                middle = (low + high) // 2
                unchanged = (day + timedelta(minutes=middle)).astimezone(zone).utcoffset() == offset
                low, high = (middle, high) if unchanged else (low, middle)
            found.append(day + timedelta(minutes=high))
            offset = after
        day += step
    return found


def instant(named: datetime, change: datetime, zone: ZoneInfo) -> int:
    """The instant that stands for a local time near a change, found by trying both offsets."""
    offsets = {(change + timedelta(minutes=n)).astimezone(zone).utcoffset() for n in (-1, 0)}
    shown = [(named - offset).replace(tzinfo=UTC) for offset in offsets if offset is not None]
    right = [moment for moment in shown if moment.astimezone(zone).replace(tzinfo=None) == named]
    return us(min(right)) if right else us(change)


@pytest.mark.more
def test_there_are_enough_changes_to_test() -> None:
    assert len(ZONES) >= 50
    assert sum(map(len, map(changes, ZONES))) > 1500


@EVERYWHERE
def test_a_fixed_time_comes_exactly_once_a_day(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(name):
        before = (change - timedelta(minutes=1)).astimezone(zone)
        # In the gap or in the hour that comes twice, whichever it is; and an ordinary time.
        for hour, minute in {(change.astimezone(zone).hour, 10), (before.hour, 50), (2, 30)}:
            timing = Timing(cron=f"{minute} {hour} * * *", tz=name)
            first = before.date() - timedelta(days=1)
            start = us(datetime.combine(first, datetime.min.time(), zone)) - 1
            days = [first + timedelta(days=n) for n in range(4)]
            expected = [instant(datetime(d.year, d.month, d.day, hour, minute), change, zone) for d in days]
            found = list(islice(moments(timing, start), len(days)))
            assert found == expected, (change, timing)


@EVERYWHERE
def test_with_a_star_real_intervals_are_kept(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(name):
        start = change - timedelta(minutes=100)
        shown = {
            us(moment): moment.astimezone(zone)
            for n in range(41)
            for moment in [start + n * timedelta(minutes=5)]
        }
        for expression, minutes in (
            ("*/15 * * * *", (0, 15, 30, 45)),
            ("30 * * * *", (30,)),
            ("5/20 * * * *", (5, 25, 45)),
        ):
            timing = Timing(cron=expression, tz=name)
            expected = [moment for moment, local in shown.items() if local.minute in minutes]
            found = list(islice(moments(timing, us(start) - 1), len(expected)))
            assert found == expected, (change, expression)


@settings(max_examples=settings().max_examples // 3)  # each looks at three days of minutes
@given(data=st.data())
def test_around_a_change_every_instant_that_fits_comes_once(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(ODD_ZONES))
    change = data.draw(st.sampled_from(changes(name)))
    minutes = data.draw(st.sampled_from(["*", "*/5", "*/7", "0", "5", "35", "5,35", "*/30"]))
    hours = data.draw(st.sampled_from(["*", "*/2", "*/3", "0", "1", "2", "1-3", "23,0", "0-4"]))
    if not (minutes.startswith("*") or hours.startswith("*")):
        hours = "*"
    zone, start = ZoneInfo(name), change - timedelta(hours=data.draw(st.integers(1, 30)))
    expected = [
        us(moment)
        for n in range(1, 3 * 1440)
        for moment in [start + timedelta(minutes=n)]
        for local in [moment.astimezone(zone)]
        if local.minute in named(minutes, 60) and local.hour in named(hours, 24)
    ]
    timing = Timing(cron=f"{minutes} {hours} * * *", tz=name)
    assert list(islice(moments(timing, us(start)), len(expected))) == expected


def named(field: str, size: int) -> set[int]:
    """The numbers that a part of an expression fits."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "", str(size - 1)) if span == "*" else span.partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def test_a_star_in_the_minutes_follows_the_hours_that_are_named() -> None:
    timing = Timing(cron="*/30 1 * * *", tz="Europe/London")
    # 1:00 to 1:59 is skipped on 29 March 2026, and comes twice on 25 October.
    found = list(islice(moments(timing, us(datetime(2026, 3, 28, 3, tzinfo=UTC))), 2))
    assert [at(moment, "Europe/London").day for moment in found] == [30, 30]
    found = list(islice(moments(timing, us(datetime(2026, 10, 24, 12, tzinfo=UTC))), 4))
    assert [at(moment).strftime("%d %H:%M") for moment in found] == [
        "25 00:00",
        "25 00:30",
        "25 01:00",
        "25 01:30",
    ]


def test_several_times_in_one_gap_fall_together() -> None:
    timing = Timing(cron="0,20,40 1 * * *", tz="Europe/London")
    found = islice(moments(timing, us(datetime(2026, 3, 28, 12, tzinfo=UTC))), 3)
    assert [at(moment).strftime("%d %H:%M") for moment in found] == ["29 01:00", "30 00:00", "30 00:20"]


def test_whoever_begins_in_the_hour_that_comes_again_runs_nothing_twice() -> None:
    timing = Timing(cron="30 1 * * *", tz="Europe/London")
    again = us(datetime(2026, 10, 25, 1, 10, tzinfo=UTC))  # 1:10 for the second time
    assert next_after(timing, again) == us(datetime(2026, 10, 26, 1, 30, tzinfo=UTC))


@given(
    zone=st.sampled_from(ZONES),
    start=st.integers(us(datetime(2000, 1, 1, tzinfo=UTC)), us(datetime(2037, 1, 1, tzinfo=UTC))),
    expression=st.sampled_from(
        ["30 2 * * *", "*/15 * * * *", "0 0 1 * *", "15,45 1-3 * * sun", "* * 29 2 *"]
    ),
)
def test_moments_do_not_depend_on_where_one_begins(zone: str, start: int, expression: str) -> None:
    timing = Timing(cron=expression, tz=zone)
    first, second = islice(moments(timing, start), 2)
    assert start < first < second
    assert next_after(timing, (start + first) // 2) == first
    assert next_after(timing, first - 1) == first


# --- expressions --------------------------------------------------------------------------------------------


def test_weekdays_by_name() -> None:
    timing = Timing(cron="0 9 * * mon-fri", tz="Europe/London")
    found = islice(moments(timing, us(datetime(2026, 7, 3, 12, tzinfo=UTC))), 2)
    assert [at(moment).date() for moment in found] == [date(2026, 7, 6), date(2026, 7, 7)]


def test_six_fields_begin_with_seconds() -> None:
    found = islice(moments(Timing(cron="*/20 * * * * *"), 0), 3)
    assert list(found) == [20 * SECOND, 40 * SECOND, 60 * SECOND]


@pytest.mark.parametrize(
    "expression", ["", "* * *", "61 * * * *", "a b c d e", "* * * * * * *", "0 0 31 2 *"]
)
def test_a_bad_expression_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError, match="cron expression"):
        check_timing(Timing(cron=expression))


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        check_timing(Timing(cron="* * * * *", tz=zone))


def test_an_expression_that_never_comes_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="never comes"):
        check_timing(Timing(cron="0 0 */31 * mon#5"))


# --- what is due --------------------------------------------------------------------------------------------


def test_an_interval_begins_one_interval_after_it_was_first_seen() -> None:
    tidy = schedule(Timing(every_us=30 * SECOND))
    assert due(tidy, 1000, 1000 + 30 * SECOND - 1) is None
    firing = due(tidy, 1000, 1000 + 30 * SECOND)
    assert firing is not None
    assert (firing.until_us, firing.moments) == (1000 + 30 * SECOND, (1000 + 30 * SECOND,))


@pytest.mark.parametrize(
    ("catch_up", "now", "fired"),
    [
        ("skip", 131, ()),
        ("skip", 129, (120,)),
        ("one", 131, (120,)),
        ("all", 131, (20, 40, 60, 80, 100, 120)),
    ],
)
def test_after_downtime(catch_up: CatchUp, now: int, fired: tuple[int, ...]) -> None:
    tidy = schedule(Timing(every_us=20 * SECOND, catch_up=catch_up))
    firing = due(tidy, 0, now * SECOND)
    assert firing is not None
    assert firing.moments == tuple(moment * SECOND for moment in fired)
    assert firing.until_us == 120 * SECOND


@pytest.mark.parametrize(("late", "fires"), [(0, True), (60, True), (61, False)])
def test_a_minute_late_is_not_missed(late: int, fires: bool) -> None:
    nine = us(datetime(2026, 7, 6, 9, tzinfo=UTC))
    firing = due(schedule(Timing(cron="0 9 * * *")), nine - 30 * 24 * HOUR_US, nine + late * SECOND)
    assert firing is not None
    assert (firing.until_us, firing.moments) == (nine, (nine,) if fires else ())


def test_years_of_minutes_are_made_up_for_in_steps_and_only_the_latest() -> None:
    tidy = schedule(Timing(cron="* * * * *", catch_up="all"))
    now = us(datetime(2026, 7, 6, tzinfo=UTC))
    last = now - 3 * 365 * 24 * HOUR_US
    fired: list[int] = []
    while (firing := due(tidy, last, now)) is not None:
        assert len(firing.moments) <= STEP_MOMENTS
        fired += firing.moments
        last = firing.until_us
    assert fired == [now - n * MINUTE_US for n in reversed(range(MOST_MISSED))]


def test_large_payloads_are_fired_in_smaller_steps() -> None:
    firing = due(schedule(Timing(every_us=SECOND, catch_up="all"), bytes(STEP_BYTES // 3)), 0, 50 * SECOND)
    assert firing is not None
    assert len(firing.moments) == 3


def test_once_for_all_that_was_missed() -> None:
    tidy = schedule(Timing(cron="0 0 1 1 *", catch_up="one"))
    firing = due(tidy, us(datetime(1990, 5, 1, tzinfo=UTC)), us(datetime(2026, 7, 6, tzinfo=UTC)))
    assert firing is not None
    assert firing.moments == (us(datetime(2026, 1, 1, tzinfo=UTC)),)


# --- messages -----------------------------------------------------------------------------------------------


def test_the_message_of_a_moment_is_the_same_for_every_worker() -> None:
    tidy = schedule(Timing(every_us=SECOND, jitter_us=10 * SECOND))
    one, other = message_at(tidy, 5 * SECOND, 6 * SECOND), message_at(tidy, 5 * SECOND, 7 * SECOND)
    assert (one.id, one.due_us) == (other.id, other.due_us)
    assert 5 * SECOND <= one.due_us <= 15 * SECOND
    assert message_at(tidy, 6 * SECOND, 6 * SECOND).id != one.id
    assert decode_envelope(one.body).id == one.id


def test_jitter_spreads() -> None:
    tidy = schedule(Timing(every_us=SECOND, jitter_us=100 * SECOND))
    delays = [message_at(tidy, n * SECOND, 0).due_us - n * SECOND for n in range(200)]
    assert all(0 <= delay <= 100 * SECOND for delay in delays)
    assert 40 * SECOND < sum(delays) / len(delays) < 60 * SECOND


def test_a_schedule_is_stored_whole() -> None:
    tidy = schedule(Timing(cron="* * * * *", tz="Asia/Tehran", catch_up="one", jitter_us=7))
    assert decode_schedule(encode_schedule(tidy)) == tidy


def limited(limit: int, fired: int = 0, **timing: Any) -> Schedule:
    return Schedule("tick", "default", Timing(**timing), Template("tick", b""), limit, fired)


def test_no_more_moments_than_the_limit_are_caught_up() -> None:
    ten = limited(10, 7, every_us=SECOND, catch_up="all")
    firing = due(ten, 0, 100 * SECOND)
    assert firing is not None
    assert len(firing.moments) == 3
    assert due(limited(10, 10, every_us=SECOND), 0, 100 * SECOND) is None


@pytest.mark.parametrize("catch_up", ["skip", "one", "all"])
def test_only_moments_between_start_and_end_are_fired(catch_up: Any) -> None:
    schedule = limited(
        0, every_us=10 * SECOND, catch_up=catch_up, starts_us=105 * SECOND, ends_us=130 * SECOND
    )
    fired: list[int] = []
    last = 3 * SECOND
    for now in range(100 * SECOND, 200 * SECOND, SECOND):
        firing = due(schedule, last, now)
        if firing is not None:
            fired += firing.moments
            last = firing.until_us
    assert fired == [105 * SECOND, 115 * SECOND, 125 * SECOND]
