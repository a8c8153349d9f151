"""Schedules on Redis: a hash for each queue, of which one field in front of each name says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.decoding import DECODE_ERRORS
from headrace.core.message import Batch, Message, Stream
from headrace.core.scheduling import ScheduleRecord, Scheduling, Timetable

from .appending import tick_call
from .faults import is_damaged
from .keys import label_of
from .scripts import ESTABLISH, HOLD, SCHEDULE, SCHEDULES, UNSCHEDULE
from .store import Store


class RedisScheduling(Scheduling):
    _store: Store

    async def schedules(self, streams: Sequence[Stream]) -> Timetable:
        if not streams:
            return Timetable(self._store.now_us())
        calls = [self._store.queue(stream).call(SCHEDULES) for stream in streams]
        replies = await self._store.run_all(calls, tolerates=is_damaged if len(calls) > 1 else None)
        answers = [
            (stream, reply) for stream, reply in zip(streams, replies, strict=True) if isinstance(reply, list)
        ]
        # The earliest of the times: what is due by it is due by all.
        now_us = min((int(now) for _, (now, _) in answers), default=self._store.now_us())
        records = [record for stream, (_, fields) in answers for record in _records(stream, fields)]
        return Timetable(now_us, tuple(records))

    async def establish(self, stream: Stream, names: Sequence[str]) -> None:
        if names:
            await self._list_stream(stream)
            await self._store.run(self._store.queue(stream).call(ESTABLISH, *names))

    async def add_schedule(self, stream: Stream, name: str, definition: bytes) -> ScheduleRecord:
        await self._list_stream(stream)
        answer = await self._store.run(self._store.queue(stream).call(SCHEDULE, name, definition))
        return _record(stream, name, *answer)

    async def pause_schedule(self, stream: Stream, name: str, *, paused: bool) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(HOLD, name, int(paused))))

    async def remove_schedule(self, stream: Stream, name: str) -> bool:
        return bool(await self._store.run(self._store.queue(stream).call(UNSCHEDULE, name)))

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
        # Not confirmed as appends are: a server that loses the job loses the step with it, and fires again.
        batch = Batch(stream, f"schedule:{name}:{next_us}", 1, list(messages))
        call = tick_call(self._store.queue(stream), batch, name, expected_us, next_us, timing)
        answer: Any = await self._store.run(call)
        return isinstance(answer, list)

    async def _list_stream(self, stream: Stream) -> None:
        if stream not in self._store.listed:
            await self._store.command("SADD", self._store.keys.streams, label_of(stream))
            self._store.listed.add(stream)


def _records(stream: Stream, fields: list[bytes]) -> list[ScheduleRecord]:
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
    """None: somebody has damaged it. The others are fired."""
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
    said = (timing or b"").decode()
    return ScheduleRecord(stream, name, int(last or 0), int(fired or 0), paused is not None, definition, said)
