"""Stores schedules on Redis, in one hash for each queue. The prefix of a field says what the field holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    Scheduling,
    Swapped,
    Timetable,
)
from headrace.stores.redis.scripts import SCHEDULES
from headrace.stores.redis.server.faults import is_damaged
from headrace.stores.redis.server.server import RedisServer

from .append import swap_call

#: Swaps without messages that one script carries out.
ITEMS = 200


class RedisScheduling(Scheduling):
    _store: RedisServer

    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        if not streams:
            return Timetable(self._store.now_us())
        calls = [self._store.queue(stream).call(SCHEDULES) for stream in streams]
        replies = await self._store.run_all(calls, tolerates=is_damaged if len(calls) > 1 else None)
        answers = [
            (stream, reply) for stream, reply in zip(streams, replies, strict=True) if isinstance(reply, list)
        ]
        # Take the earliest of the times: what is due by that one is due by all.
        now_us = min((int(now) for _, (now, _) in answers), default=self._store.now_us())
        records = [record for stream, (_, fields) in answers for record in records_of(stream, fields)]
        return Timetable(now_us, tuple(records))

    async def swap_schedules(self, swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        # A record that is there was listed when it was made: a damaged list does not stop what it fires.
        for stream in {swap.stream for swap in swaps if swap.expected is None}:
            await self._list_stream(stream)
        # No confirmation, unlike an append: a server that loses the job also loses the swap, and the schedule
        # fires again.
        chunks = list(_chunks(swaps))
        calls = [swap_call(self._store.queue(chunk[0].stream), chunk) for chunk in chunks]
        replies = await self._store.run_all(calls) if calls else []
        done: dict[tuple[Stream, str], Swapped] = {}
        for chunk, (now_us, *answers) in zip(chunks, replies, strict=True):
            for swap, answer in zip(chunk, answers, strict=True):
                done[swap.stream, swap.name] = _swapped(swap, int(now_us), answer)
        return [done[swap.stream, swap.name] for swap in swaps]

    async def _list_stream(self, stream: Stream) -> None:
        if stream not in self._store.listed:
            await self._store.list_streams(stream)


def _chunks(swaps: Sequence[ScheduleSwap]) -> Iterator[list[ScheduleSwap]]:
    """The swaps of each script call: one swap with messages, or many of one stream without."""
    plain: defaultdict[Stream, list[ScheduleSwap]] = defaultdict(list)
    for swap in swaps:
        if swap.messages:
            yield [swap]
        else:
            plain[swap.stream].append(swap)
    for some in plain.values():
        yield from (some[start : start + ITEMS] for start in range(0, len(some), ITEMS))


def _swapped(swap: ScheduleSwap, now_us: int, answer: Any) -> Swapped:
    """The header of the script describes `answer`."""
    if answer == 1:
        return Swapped(True, swap.record_at(now_us))
    return Swapped(False, _record(swap.stream, swap.name, *answer) if answer else None)


def records_of(stream: Stream, fields: list[bytes]) -> list[ScheduleRecord]:
    known = dict(zip(fields[::2], fields[1::2], strict=True))
    names = sorted(field[2:] for field in known if field.startswith(b"l:"))
    records = (
        _readable_record(
            stream, name, *(known.get(kind + name) for kind in (b"l:", b"f:", b"p:", b"d:", b"t:"))
        )
        for name in names
    )
    return [record for record in records if record is not None]


def _readable_record(stream: Stream, name: bytes, *fields: bytes | None) -> ScheduleRecord | None:
    """The record; None: it is damaged. The other schedules still fire."""
    try:
        return _record(stream, name.decode(), *fields)
    except DECODE_ERRORS:
        return None


def _record(
    stream: Stream,
    name: str,
    last: bytes | None = None,
    fired: bytes | None = None,
    paused: bytes | None = None,
    definition: bytes | None = None,
    timing: bytes | None = None,
) -> ScheduleRecord:
    """A record needs only a time. Other fields that cannot be read are replaced when it fires next."""
    if last is None or not last.isdigit():
        raise ValueError(f"schedule {name} has no time")
    fired_us = int(fired) if fired and fired.isdigit() else 0
    timetable = (timing or b"").decode(errors="surrogateescape")
    return ScheduleRecord(
        stream, name, int(last), fired_us, paused is not None, definition or None, timetable
    )
