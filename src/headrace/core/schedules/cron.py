"""The moments of a cron expression in a time zone.

Local time works as in Debian's cron. An expression whose minute and hour both name times is a fixed-time job:
it runs exactly once for each time it names. A time that the clocks skip is run at the first instant after the
gap; a time that comes twice is run the first time. With a star in minute or hour it keeps its real intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import SECOND

#: Names that cron gives to common expressions.
NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)

#: Within this time a zone changes its clocks once at most.
_NO_TWO_CHANGES = timedelta(days=1)


def refuse_unknown_nickname(expression: str) -> None:
    name = expression.strip()
    if name == "@reboot":
        raise ConfigurationError(
            "'@reboot' has no moments in time, so it is no schedule here: enqueue the job where your program "
            "starts, with a unique key if several processes do so"
        )
    if name.startswith("@") and name not in NICKNAMES:
        raise ConfigurationError(f"{name!r} is no cron expression; there are {', '.join(NICKNAMES)}")


def moments(expression: str, tz: str, after_us: int) -> Iterator[int]:
    """The moments of an expression after `after_us`, in order, without end."""
    zone = zone_of(tz)
    after = _EPOCH + timedelta(seconds=after_us // SECOND)
    fields = fields_of(expression)
    found = _fixed(fields, after, zone) if _is_fixed(fields) else _real(fields, after, zone)
    for moment in found:
        yield (moment - _EPOCH) // timedelta(microseconds=1)


def fields_of(expression: str) -> str:
    """The five fields of an expression, also when it is written as a name such as `@daily`."""
    return NICKNAMES.get(expression.strip(), expression)


def _is_fixed(expression: str) -> bool:
    fields = expression.split()
    if len(fields) < 5:
        return False  # it is refused as soon as it is read
    minute, hour = fields[-5:-3]
    return not minute.startswith("*") and not hour.startswith("*")


def _fixed(expression: str, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The times that the expression names, each as one instant."""
    last = after
    for named in CronSim(expression, after.astimezone(zone).replace(tzinfo=None)):
        moment = _instant(named, zone)
        # Several times in one gap are one instant. In an hour that comes twice, each time ran the first time.
        if moment > last:
            last = moment
            yield moment


def _instant(named: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which clocks in the zone show this time, or a later one if they never do."""
    earlier = named.replace(tzinfo=zone, fold=1).astimezone(UTC)
    later = named.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if later <= earlier:  # equal on most days; else the time comes twice, and `later` is the first
        return later
    return _change_between(earlier, later, zone)


def _real(expression: str, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Every instant at which clocks in the zone show a time that fits the expression.

    From one change of the clocks to the next the offset from UTC is constant: each time is one instant.
    """
    while True:
        start = after + _SECOND
        offset = _offset(start, zone)
        local = next(CronSim(expression, (after + offset).replace(tzinfo=None)), None)
        if local is None:
            return
        found = local.replace(tzinfo=UTC) - offset
        change = _first_change(start, found, zone)
        if change is None:
            yield found
        after = found if change is None else change - _SECOND


def _first_change(start: datetime, end: datetime, zone: ZoneInfo) -> datetime | None:
    """The first whole second after `start`, up to `end`, at which clocks in the zone are changed."""
    offset = _offset(start, zone)
    while start < end:
        following = min(start + _NO_TWO_CHANGES, end)
        if _offset(following, zone) != offset:
            return _change_between(start, following, zone)
        start = following
    return None


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _change_between(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    """The first whole second after `start` by which clocks in the zone have changed to what they show at
    `end`."""
    offset = _offset(end, zone)
    low, high = 0, round((end - start).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(start + middle * _SECOND, zone) == offset:
            high = middle
        else:
            low = middle
    return start + high * _SECOND


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigurationError(
            f"there is no time zone {name!r} here: use a name such as 'Europe/London', and install tzdata "
            "where the system has no time zones"
        ) from None
