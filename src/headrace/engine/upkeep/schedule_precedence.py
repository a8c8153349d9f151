"""Decides which timetable of a declared schedule is active, when workers with different code run together."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from headrace.core.messages.message import Stream
from headrace.core.schedules.schedule import Schedule, timing_of
from headrace.core.schedules.schedule_record import ScheduleRecord, ScheduleSwap, Timetable, advance
from headrace.engine.streams import StreamRouter

#: Seconds after which an earlier timetable replaces one that no live worker announces.
UNCLAIMED = 10.0

#: Timetables that a record remembers: the active one, and those before it.
REMEMBERED = 8


class SchedulePrecedence:
    """A timetable that a record has never had is a change in the code: it is active at once, from now on. A
    timetable that the record had before belongs to old code that still runs. It fires nothing while a worker
    with the active timetable is alive. After that it becomes active again, also from now on."""

    def __init__(self, backend: StreamRouter, declared: Mapping[tuple[Stream, str], Schedule]) -> None:
        self._backend = backend
        self._own = {key: timing_of(schedule) for key, schedule in declared.items()}
        self._unclaimed: dict[str, float] = {}  # since when no worker announces a timetable

    @property
    def own(self) -> tuple[str, ...]:
        """The timetables of this worker, as it announces them."""
        return tuple(self._own.values())

    def holds(self, record: ScheduleRecord) -> bool:
        """Whether this worker may fire the schedule."""
        own = self._own.get((record.stream, record.name))
        return own is None or record.timing.split(" ")[0] == own

    async def bring_in(self, table: Timetable) -> bool:
        """Make this worker's timetables active where they should be. Returns whether a record changed."""
        others = [record for record in table.records if not record.paused and not self.holds(record)]
        claimed = await self._claimed() if any(record.timing for record in others) else frozenset()
        taken_over = [self._taken_over(record, table.now_us, claimed) for record in others]
        swaps = [swap for swap in taken_over if swap is not None]
        return bool(swaps) and any(answer.done for answer in await self._backend.swap_schedules(swaps))

    async def _claimed(self) -> frozenset[str]:
        return frozenset(timing for worker in await self._backend.workers() for timing in worker.timings)

    def _taken_over(
        self, record: ScheduleRecord, now_us: int, claimed: frozenset[str]
    ) -> ScheduleSwap | None:
        """The change that makes this worker's timetable active; None: the other timetable stays active."""
        own, line = self._own[record.stream, record.name], record.timing.split()
        if own in line and not self._is_given_up(line[0], claimed):
            return None
        # A record without a timetable does not show a change. So it keeps its last time.
        until_us = now_us if line else min(record.last_us, now_us)
        timing = " ".join([own, *(each for each in line if each != own)][:REMEMBERED])
        return advance(record, until_us, timing=timing)

    def _is_given_up(self, timing: str, claimed: frozenset[str]) -> bool:
        if timing in claimed:
            self._unclaimed.pop(timing, None)
            return False
        return monotonic() - self._unclaimed.setdefault(timing, monotonic()) >= UNCLAIMED
