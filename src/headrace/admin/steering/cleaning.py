"""Removes jobs of a queue by their state and age, and whole queues, in bounded steps that can be repeated."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import GIVEN_KEY, Stream
from headrace.core.records.job_info import job_info
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import SECOND, datetime_of
from headrace.core.schedules import schedule_record
from headrace.engine.streams import StreamRouter

from .repeatable import Counted, RepeatableSteps

#: Messages that one step of a store removes.
STEP = 200

#: What `clean` removes when no state is named.
OVER: Final = (JobStatus.SUCCEEDED, JobStatus.CANCELLED, JobStatus.EXPIRED)

#: The states that `clean` takes.
CLEANABLE: Final = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.RETRYING, JobStatus.DEAD, *OVER)

#: How often `remove_queue` tries while other processes enqueue.
TRIES = 10


def cleanable_states(state: JobStatus | str | None) -> tuple[JobStatus, ...]:
    """The states of a call of `clean`."""
    if state is None:
        return OVER
    if state not in CLEANABLE:
        known = ", ".join(CLEANABLE)
        raise ConfigurationError(f"clean takes one of the states {known}, not {state!r}")
    return (JobStatus(state),)


class Cleaning:
    """`ttl_us` is how long the store remembers a job that was cancelled."""

    def __init__(self, store: StreamRouter, ttl_us: int) -> None:
        self._store = store
        self._ttl_us = ttl_us
        self._steps = RepeatableSteps()

    async def clean(self, stream: Stream, states: tuple[JobStatus, ...], age: float) -> Counted:
        """Remove the jobs in these states that are older than `age` seconds."""
        before = datetime_of(await self._now_us(stream) - round(age * SECOND))
        total = 0
        for status in states:
            total += await self._clean(stream, status, before)
        return self._steps.counted(total)

    async def remove_queue(self, stream: Stream, *, force: bool) -> bool:
        """Remove a queue, with `force` also one that is in use. False: there is no such queue."""
        if stream not in await self._steps.take(self._store.streams):
            return False
        for _ in range(TRIES):
            if force:
                await self._empty(stream)
            else:
                await self._refuse_if_used(stream)
            for status in OVER:
                await self._clean(stream, status, None)
            removed = await self._steps.take(lambda: self._store.remove_queue(stream))
            if removed or self._steps.doubt is not None:
                return True
        raise ConfigurationError(
            f"queue {stream.name!r} is in use: stop what enqueues jobs, and let its outbox be relayed"
        )

    async def release_key(self, stream: Stream, key: str) -> bool:
        """Free a unique key that a user has given, or one as a job's info shows it."""
        released = [
            await self._steps.take(partial(self._store.release_key, stream, stored))
            for stored in (GIVEN_KEY + key, key)
        ]
        return any(released) or self._steps.doubt is not None

    async def _now_us(self, stream: Stream) -> int:
        timetable = await self._steps.take(lambda: self._store.schedules([stream]))
        return timetable.now_us

    async def _clean(self, stream: Stream, status: JobStatus, before: datetime | None) -> int:
        """Remove jobs of one state page by page, until a look at all of them finds nothing to remove."""
        total = 0
        while removed := await self._clean_once(stream, status, before):
            total += removed
        return total

    async def _clean_once(self, stream: Stream, status: JobStatus, before: datetime | None) -> int:
        removed, cursor = 0, None
        while True:
            look = partial(self._store.messages, stream, status=status, cursor=cursor, limit=STEP)
            page = await self._steps.take(look)
            ids = [record.id for record in page if _is_older(record, before)]
            if ids:
                ttl_us = 0 if before is None else self._ttl_us
                if status.over:
                    await self._steps.take(partial(self._store.forget_history, stream, ids))
                step = partial(self._store.clean, stream, ids, status=status, ttl_us=ttl_us)
                removed += await self._steps.take(step)
            cursor = page.cursor
            if cursor is None:
                return removed + (await self._clean_history(stream, status, before) if status.over else 0)

    async def _clean_history(self, stream: Stream, status: JobStatus, before: datetime | None) -> int:
        removed, cursor = 0, None
        while True:
            look = partial(self._store.history, stream, status=status, cursor=cursor, limit=STEP)
            page = await self._steps.take(look)
            ids = [each.id for each in page if before is None or datetime_of(each.ended_us) <= before]
            if ids:
                removed += await self._steps.take(partial(self._store.forget_history, stream, ids))
            cursor = page.cursor
            if cursor is None:
                return removed

    async def _refuse_if_used(self, stream: Stream) -> None:
        counts = await self._steps.take(lambda: self._store.counts(stream))
        timetable = await self._steps.take(lambda: self._store.schedules([stream]))
        held = {
            "queued": counts.queued,
            "running": counts.running,
            "scheduled": counts.scheduled,
            "retrying": counts.retrying,
            "dead": counts.dead,
        }
        parts = [f"{number:,} {state}" for state, number in held.items() if number]
        if timetable.records:
            parts.append(f"{len(timetable.records):,} schedules")
        if parts:
            raise ConfigurationError(
                f"queue {stream.name!r} holds {', '.join(parts)}: run, purge or discard them first, or "
                "remove everything with force=True"
            )

    async def _empty(self, stream: Stream) -> None:
        timetable = await self._steps.take(lambda: self._store.schedules([stream]))
        swaps = [schedule_record.remove(record) for record in timetable.records]
        if swaps:
            await self._steps.take(lambda: self._store.swap_schedules(swaps))
        purge = partial(self._store.purge, stream, ttl_us=0, limit=STEP)
        while await self._steps.take(purge):
            pass
        for status in (JobStatus.RUNNING, JobStatus.DEAD):
            await self._clean(stream, status, None)


def _is_older(record: Record, before: datetime | None) -> bool:
    """Whether a job is over since that time, or was enqueued before it while it is not over."""
    if before is None:
        return True
    info = job_info(record)
    since = info.ended_at or info.enqueued_at
    return since is None or since <= before
