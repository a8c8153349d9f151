"""Decides which events of a log may go, and for which groups old events stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headrace.core.messages.message import Stream

from .topic import LIVE_FOR, KeptTopics


class LogDrawer(Protocol):
    """What trimming must know of a group. It may still have to draw events after `low_water`."""

    @property
    def stream(self) -> Stream: ...
    @property
    def low_water(self) -> int: ...
    @property
    def seen_us(self) -> int: ...


def is_live(group: LogDrawer, now_us: int) -> bool:
    return group.seen_us + LIVE_FOR > now_us


def may_go(spare: int, groups: Iterable[LogDrawer], now_us: int) -> int:
    """The number up to which events of a strict topic may go. It keeps what a live group has not drawn.
    `spare`: the number up to which the limits of age or length allow trimming."""
    held = [group.low_water for group in groups if is_live(group, now_us)]
    return min([spare, *held])


def kept_in(spare: int, first: int, groups: Iterable[LogDrawer], now_us: int) -> KeptTopics:
    """The groups for which a strict topic keeps events, and the groups for which it keeps none any more.
    `first`: the number of the first event that is left."""
    behind = [group for group in groups if group.low_water < spare]
    held = spare >= first
    return KeptTopics(
        holding=tuple(group.stream for group in behind if held and is_live(group, now_us)),
        passed=tuple(group.stream for group in behind if not is_live(group, now_us)),
    )


def room_in_log(limit: int, first: int, last: int, groups: Iterable[LogDrawer], now_us: int) -> int:
    """How many events a log takes from a batch with this limit. It may hold `limit` events that not every
    live group has drawn. `first` and `last` are the numbers of its events."""
    drawn = [group.low_water for group in groups if is_live(group, now_us)]
    return max(0, limit - (last - max(min(drawn, default=0), first - 1)))
