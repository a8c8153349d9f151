"""A schedule as users see it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.core.records.record import moment
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule import CatchUp, Schedule, upcoming
from headrace.core.schedules.schedule_record import ScheduleRecord


class ScheduleInfo(msgspec.Struct, frozen=True):
    """A schedule and its state.

    - `name`: its name
    - `queue`: the queue of its jobs
    - `task`: the name of the task; empty for a declared schedule whose code is not in this process
    - `cron`: the cron expression
    - `every`: the interval in seconds
    - `tz`: the time zone of `cron`
    - `catch_up`: what happens to times at which no worker ran
    - `jitter`: seconds by which each job is delayed at most
    - `starts`: the first time at which it may fire
    - `ends`: the last time at which it may fire
    - `limit`: how many jobs it enqueues at most
    - `fired`: how many it has enqueued, if it has a limit
    - `declared`: the code defines it, with `@app.cron` or `@app.every`
    - `paused`: it enqueues nothing until it is resumed
    - `next_at`: the next time
    - `last_at`: the time for which it last enqueued a job
    """

    name: str
    queue: str
    task: str = ""
    cron: str | None = None
    every: float | None = None
    tz: str | None = None
    catch_up: CatchUp = "skip"
    jitter: float = 0.0
    starts: datetime | None = None
    ends: datetime | None = None
    limit: int | None = None
    fired: int = 0  # how often, if it has a limit
    declared: bool = False
    paused: bool = False
    next_at: datetime | None = None
    last_at: datetime | None = None


def info_of(record: ScheduleRecord, schedule: Schedule | None, now_us: int) -> ScheduleInfo:
    """What users see of a schedule and its record."""
    info = ScheduleInfo(
        name=record.name,
        queue=record.stream.name,
        declared=record.definition is None,
        paused=record.paused,
        last_at=moment(record.fired_us),
    )
    if schedule is None:
        return info
    timing = schedule.timing
    next_us = None if record.paused else _next_us(schedule, record.last_us, now_us)
    return msgspec.structs.replace(
        info,
        task=schedule.template.task,
        cron=timing.cron or None,
        every=timing.every_us / SECOND if timing.every_us else None,
        tz=timing.tz if timing.cron else None,
        catch_up=timing.catch_up,
        jitter=timing.jitter_us / SECOND,
        starts=moment(timing.starts_us),
        ends=moment(timing.ends_us),
        limit=schedule.limit or None,
        fired=schedule.fired,
        next_at=None if next_us is None else moment(next_us),
    )


def _next_us(schedule: Schedule, last_us: int, now_us: int) -> int | None:
    """The next time. None also when the stored timing cannot be computed: a listing shows the others
    anyway."""
    try:
        return upcoming(schedule, last_us, now_us)
    except Exception:
        return None
