"""The part of the contract that keeps schedules: records by stream and name, and the step that fires one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from .message import Message, Stream


class ScheduleRecord(msgspec.Struct, frozen=True):
    """What a store keeps of a schedule. Times are microseconds on its clock.

    `last_us` is the moment up to which everything is dealt with: the last that was fired or skipped, or when
    the schedule was first seen or resumed. `fired_us` is the last that was fired; 0: none yet. `definition`
    is None for a schedule that the code declares, else the whole of it, as `core/schedule.py` encodes it.
    `timing` says by which timetable a declared one is fired, as `tick` was told; empty: nobody has said yet.
    """

    stream: Stream
    name: str
    last_us: int
    fired_us: int = 0
    paused: bool = False
    definition: bytes | None = None
    timing: str = ""


class Timetable(msgspec.Struct, frozen=True):
    """Records of schedules, and the time on the store's clock at which they were read."""

    now_us: int
    records: tuple[ScheduleRecord, ...] = ()


class Scheduling(ABC):
    """Schedules of any number of workers that know nothing of each other. There is no leader: whoever finds a
    moment due tries `tick`, and the store lets one succeed."""

    @abstractmethod
    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        """The records of these streams, and the store's time."""

    @abstractmethod
    async def establish(self, stream: Stream, names: Sequence[str]) -> None:
        """Make a record, first seen now, for each of these declared schedules that has none. Repeatable."""

    @abstractmethod
    async def add_schedule(self, stream: Stream, name: str, definition: bytes) -> ScheduleRecord:
        """Keep a schedule whole, first seen now, unless there is one of that name; answers what stands there
        then. Announced as an order when it is new."""

    @abstractmethod
    async def pause_schedule(self, stream: Stream, name: str, *, paused: bool) -> bool:
        """Fire no more of its moments, or go on: with those after now, so that what passed meanwhile is not
        made up for. False: there is no such record. Announced as an order; repeatable."""

    @abstractmethod
    async def remove_schedule(self, stream: Stream, name: str) -> bool:
        """Forget it; its jobs stay. False: there is no such record. Announced as an order."""

    @abstractmethod
    async def tick(
        self,
        stream: Stream,
        name: str,
        *,
        expected_us: int,
        next_us: int,
        messages: Sequence[Message],
        timing: str | None = None,
    ) -> bool:
        """Advance a schedule from `expected_us` to the moment `next_us` and append its messages, all in one
        step or not at all.

        False, and nothing is changed, when the schedule's last moment is not `expected_us` (somebody else was
        first), when it is paused or gone, or when `next_us` is still to come on the store's clock. Without
        messages the moment is skipped: `fired_us` stays. A message whose id is known or whose unique key is
        held is left out, as `append` would; limits do not hold here. A `timing` is kept in the record, None
        leaves what is there. Repeatable: the second time finds another last moment.
        """
