"""Fires the schedules of a worker's queues. Every worker tries, and the store lets one succeed: see
`core/schedules/schedule_record.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headrace.core.encoding.codec import BindingCodec
from headrace.core.errors import RequestRefused, UnverifiedPayload
from headrace.core.messages.message import EXPIRED_TTL_US, Message, Stream
from headrace.core.rules.rotation import Rotation
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule import (
    Firing,
    Schedule,
    counted,
    due,
    message_at,
    next_of,
    opened,
    stored_schedule,
)
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    Swapped,
    Timetable,
    advance,
    establish,
)
from headrace.core.signals import BackendError, JobEnqueued
from headrace.engine.emitter import Emitter
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

from .schedule_precedence import SchedulePrecedence

#: The longest sleeps, in seconds, with and without schedules. The runner sleeps until the next firing, but an
#: announcement may be lost.
LOOK, LOOK_IDLE = 5.0, 30.0

#: Seconds until the next check when another worker fired first.
BEATEN = 0.05


class ScheduleRunner(Service):
    """Fires schedules by the store's clock, so an error of this machine's clock has no effect."""

    def __init__(
        self,
        backend: StreamRouter,
        streams: Sequence[Stream],
        declared: Iterable[Schedule],
        *,
        emitter: Emitter,
        expired_ttl_us: int = EXPIRED_TTL_US,
        codec: BindingCodec | None = None,
    ) -> None:
        self._backend = backend
        self._streams = tuple(streams)
        self._declared = {
            (stream, each.name): each
            for each in declared
            if (stream := Stream("queue", each.queue)) in self._streams
        }
        self._precedence = SchedulePrecedence(backend, self._declared)
        self._expired_ttl_us = expired_ttl_us
        self._codec = codec
        super().__init__("schedule runner", self._look, emitter=emitter)
        self._with_records: set[Stream] = set()
        self._announced: set[Stream] = set(self._streams)
        self._rotation: Rotation[Stream] = Rotation()

    def schedules_changed(self, stream: Stream | None) -> None:
        """A schedule of the stream was added, changed or removed; None: of any stream."""
        self._announced.update(self._streams if stream is None else (stream,))
        self.poke()

    def _streams_to_look_at(self) -> list[Stream]:
        """The streams that have schedules or may have new ones, and some of the others in turns."""
        some = {*self._rotation.some(self._streams), *self._announced, *self._with_records}
        some.update(stream for stream, _ in self._declared)
        self._announced = set()
        return [stream for stream in self._streams if stream in some]

    @property
    def timings(self) -> tuple[str, ...]:
        """The timetables by which it fires, as its worker announces them."""
        return self._precedence.own

    async def _look(self) -> float | None:
        """Fire schedules that are due. Returns seconds until one may be due again."""
        streams = self._streams_to_look_at()
        try:
            table = await self._backend.schedules(streams)
        except BaseException:
            self._announced.update(streams)
            raise
        self._with_records.difference_update(streams)
        self._with_records.update(record.stream for record in table.records)
        if await self._establish(table) or await self._precedence.bring_in(table):
            return None
        pause = LOOK if table.records else LOOK_IDLE
        firings: list[ScheduleSwap] = []
        for schedule, record in self._active(table):
            plan = self._plan(schedule, record, table.now_us)
            if isinstance(plan, Firing):
                messages = [self._message(schedule, moment_us, table.now_us) for moment_us in plan.moments]
                definition = counted(record.definition, len(messages)) if schedule.limit else None
                firings.append(advance(record, plan.until_us, messages, definition=definition))
            else:
                pause = min(pause, plan)
        if not firings:
            return pause
        return 0.0 if await self._fire(firings) else min(pause, BEATEN)

    async def _establish(self, table: Timetable) -> bool:
        """Make records for declared schedules that have none. Returns whether there were any."""
        known = {(record.stream, record.name) for record in table.records}
        missing = [establish(stream, name) for stream, name in self._declared.keys() - known]
        return bool(missing) and bool(await self._swap(missing))

    def _active(self, table: Timetable) -> Iterator[tuple[Schedule, ScheduleRecord]]:
        for record in table.records:
            schedule = self._declared.get((record.stream, record.name)) or self._read(record)
            if schedule is not None and not record.paused and self._precedence.holds(record):
                yield schedule, record

    def _plan(self, schedule: Schedule, record: ScheduleRecord, now_us: int) -> Firing | float:
        """The firing that is due, or seconds until one is due."""
        try:
            firing = due(schedule, record.last_us, now_us)
            upcoming = next_of(schedule, record.last_us)
        except Exception as error:
            # For example, this machine does not know the time zone. The other schedules must go on.
            self._announce(schedule.name, error)
            return LOOK
        if firing is not None:
            return firing
        return LOOK if upcoming is None else (upcoming - now_us) / SECOND

    async def _fire(self, firings: Sequence[ScheduleSwap]) -> bool:
        """Fire the schedules. Returns whether one succeeded."""
        fired = [firing for firing, answer in await self._swap(firings) if answer.done]
        if JobEnqueued in self._emitter.wanted:
            for firing in fired:
                for message in firing.messages:
                    self._emitter.emit(JobEnqueued(message.id, message.task, firing.stream.name))
        return bool(fired)

    async def _swap(self, swaps: Sequence[ScheduleSwap]) -> list[tuple[ScheduleSwap, Swapped]]:
        """Swap all in one request, so that a store can write them together. When the keys of one queue are
        damaged, the schedules of the others must go on."""
        try:
            return list(zip(swaps, await self._backend.swap_schedules(swaps), strict=True))
        except RequestRefused as error:
            queues = {swap.stream for swap in swaps}
            if len(queues) > 1:
                alone = [[swap for swap in swaps if swap.stream == queue] for queue in queues]
                return [pair for some in alone for pair in await self._swap(some)]
            for swap in swaps:
                self._announce(swap.name, error)
            return []

    def _message(self, schedule: Schedule, moment_us: int, now_us: int) -> Message:
        message = message_at(schedule, moment_us, now_us, self._codec)
        return msgspec.structs.replace(message, expired_ttl_us=self._expired_ttl_us)

    def _read(self, record: ScheduleRecord) -> Schedule | None:
        """The schedule that is stored in the record. None: only other code declares it, its version is newer,
        or the codec refuses it."""
        schedule = stored_schedule(record.definition)
        try:
            return schedule and opened(schedule, self._codec, queue=record.stream.name, name=record.name)
        except UnverifiedPayload as error:
            self._announce(record.name, error)
            return None

    def _announce(self, name: str, error: Exception) -> None:
        text = f"schedule {name}: {type(error).__name__}: {error}"
        self._emitter.emit(BackendError(service="schedule runner", error=text, delay=LOOK))
