"""Schedules in a store: the record of each, how a record changes, and the two verbs that read and change it.

**A record is a value.** A store keeps one record for each schedule of a stream, by name. `schedules` reads
records, and `swap_schedules` replaces one when it is still the expected one. The functions of this module
make the changes, once for all stores.

**No leader.** Every worker computes which moments are due (`core/schedules/schedule.py`) and tries to swap.
The store lets one worker succeed. The same step appends the messages of the moments. So each moment is fired
once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.rules.producers import SCHEDULE

#: In `ScheduleRecord.last_us` of a new record: the store fills in its clock.
NOW: Final = -1


class ScheduleRecord(msgspec.Struct, frozen=True):
    """What a store keeps of a schedule. Times are microseconds on its clock.

    `last_us` is the moment up to which nothing is left to do: the last that was fired or skipped, or when the
    schedule was first seen or resumed. `fired_us` is the last that was fired; 0: none yet. `definition` is
    None for a schedule that the code declares, else the whole schedule, as `core/schedules/schedule.py`
    encodes it; it is never empty. `timing` names the timetable by which a declared schedule is fired; empty:
    no worker has set it yet.
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


class ScheduleSwap(msgspec.Struct, frozen=True):
    """Replace the record `expected` by `new` (None: no record), and append `messages` to the stream in the
    same step. `announce`: the change is announced to workers."""

    stream: Stream
    name: str
    expected: ScheduleRecord | None
    new: ScheduleRecord | None
    messages: Sequence[Message] = ()
    announce: bool = False

    def is_refused(self, stored: ScheduleRecord | None, now_us: int) -> bool:
        """Whether a store that has this record must leave it as it is."""
        if stored != self.expected:
            return True
        # A clock may be set back. Then the stored moment is ahead of it, and may stay.
        last_us = stored.last_us if stored else NOW
        return self.new is not None and self.new.last_us > now_us and self.new.last_us != last_us

    def record_at(self, now_us: int) -> ScheduleRecord | None:
        """The new record with the store's time filled in."""
        if self.new is None or self.new.last_us != NOW:
            return self.new
        return _changed(self.new, last_us=now_us)

    def batch(self, record: ScheduleRecord) -> Batch:
        """The messages as a batch, numbered by the moment. A repeat fails because the record has changed."""
        return Batch(self.stream, f"{SCHEDULE}{self.name}", record.last_us, list(self.messages))


class Swapped(msgspec.Struct, frozen=True):
    """Whether a swap was carried out, and the record that is stored then."""

    done: bool
    record: ScheduleRecord | None = None


def establish(stream: Stream, name: str) -> ScheduleSwap:
    """Make the record of a schedule that the code declares, first seen now, if there is none."""
    return ScheduleSwap(stream, name, None, ScheduleRecord(stream, name, NOW))


def add(stream: Stream, name: str, definition: bytes) -> ScheduleSwap:
    """Store a schedule with its definition, first seen now, if there is none of that name."""
    new = ScheduleRecord(stream, name, NOW, definition=definition)
    return ScheduleSwap(stream, name, None, new, announce=True)


def pause(record: ScheduleRecord) -> ScheduleSwap:
    """Stop the firing of the schedule."""
    return _swap(record, _changed(record, paused=True))


def resume(record: ScheduleRecord) -> ScheduleSwap:
    """Go on with the moments after now; moments that passed during the pause are not fired."""
    return _swap(record, _changed(record, paused=False, last_us=NOW) if record.paused else record)


def redefine(record: ScheduleRecord, definition: bytes) -> ScheduleSwap:
    """Store the definition in other bytes; the schedule goes on."""
    return _swap(record, _changed(record, definition=definition))


def replace(record: ScheduleRecord, definition: bytes) -> ScheduleSwap:
    """Store another definition in place of this one. It fires the moments after now. A pause stays."""
    return _swap(record, _changed(record, definition=definition, last_us=NOW, fired_us=0))


def remove(record: ScheduleRecord) -> ScheduleSwap:
    """Remove the schedule. Its jobs stay."""
    return _swap(record, None)


def advance(
    record: ScheduleRecord,
    until_us: int,
    messages: Sequence[Message] = (),
    *,
    timing: str | None = None,
    definition: bytes | None = None,
) -> ScheduleSwap:
    """Note that nothing is left to do up to this moment. Without messages the moment is skipped: `fired_us`
    stays. A `timing` or `definition` is stored in the record; None keeps the one that is there."""
    new = _changed(
        record,
        last_us=until_us,
        fired_us=until_us if messages else record.fired_us,
        timing=record.timing if timing is None else timing,
    )
    if definition is not None:
        new = _changed(new, definition=definition)
    return ScheduleSwap(record.stream, record.name, record, new, messages)


def _swap(record: ScheduleRecord, new: ScheduleRecord | None) -> ScheduleSwap:
    return ScheduleSwap(record.stream, record.name, record, new, announce=True)


def _changed(record: ScheduleRecord, **fields: int | str | bytes | bool) -> ScheduleRecord:
    return msgspec.structs.replace(record, **fields)


class Scheduling(ABC):
    """The verbs for schedules."""

    @abstractmethod
    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        """The records of these streams, and the store's time."""

    @abstractmethod
    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        """Carry out each swap in one step, or not at all; one answer each. A batch has one swap at most for
        each schedule. When one of them fails, the others are still carried out, and then the error is raised.

        A swap is refused, and nothing is changed, when the stored record is not the expected one. Values are
        compared, so that a record which another version has written can be equal. A record that cannot be
        read counts as none. A `new.last_us` ahead of the store's clock is refused, too, unless it stays as it
        was. For `NOW` the store fills in its clock; the answer has the time.

        A swap that is carried out makes its stream known. Its messages are appended even when the stream is
        sealed or full. A message whose id is known or whose unique key is held is left out, as in `append`.
        `announce` sends a `ScheduleNotice`. Repeatable: the second time finds another record.
        """
