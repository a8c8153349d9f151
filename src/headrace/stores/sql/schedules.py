"""What the SQL stores share about schedules: the steps of a swap, and a record from its row."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.schedules.schedule_record import ScheduleRecord, ScheduleSwap, Scheduling, Swapped

#: What `record_of` takes, in this order.
COLUMNS: Final = "kind, streams.name, schedules.name, last_us, fired_us, schedules.paused, definition, timing"


class SteppedSchedules(Scheduling):
    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        steps = _steps_of(swaps)
        writing = (self._swap([swaps[index] for index in step]) for step in steps)
        answers: dict[int, Swapped] = {}
        for step, written in zip(steps, await asyncio.gather(*writing, return_exceptions=True), strict=True):
            if isinstance(written, BaseException):
                raise written
            answers.update(zip(step, written, strict=True))
        return [answers[index] for index in range(len(swaps))]

    @abstractmethod
    async def _swap(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        """Swap these schedules in one transaction."""


def _steps_of(swaps: Sequence[ScheduleSwap]) -> list[list[int]]:
    """The indexes of the swaps of each step. Swaps with messages are separate steps, so that a swap that
    cannot be written stops no other."""
    together = [index for index, swap in enumerate(swaps) if not swap.messages]
    apart = [[index] for index, swap in enumerate(swaps) if swap.messages]
    return [together, *apart] if together else apart


def record_of(
    kind: str,
    queue: str,
    name: str,
    last_us: int,
    fired_us: int,
    paused: int,
    definition: bytes | None,
    timing: str,
) -> ScheduleRecord:
    stream = Stream("topic" if kind == "topic" else "queue", queue)
    return ScheduleRecord(stream, name, last_us, fired_us, bool(paused), definition, timing)
