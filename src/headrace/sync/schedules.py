"""`app.sync.schedules`."""

from __future__ import annotations

import builtins
from typing import Any

from headrace.core.duration import Duration
from headrace.core.schedule import CatchUp
from headrace.jobs.job import Job
from headrace.jobs.schedules import ScheduleInfo, Schedules
from headrace.jobs.task import Call

from .portal import Portal


class SyncSchedules:
    """`app.sync.schedules`: the verbs of `app.schedules`, waited for."""

    def __init__(self, portal: Portal, schedules: Schedules) -> None:
        self._run = portal.run
        self._schedules = schedules

    def add(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        catch_up: CatchUp = "skip",
        jitter: Duration = 0,
    ) -> ScheduleInfo:
        return self._run(
            self._schedules.add, name, call, cron=cron, every=every, tz=tz, catch_up=catch_up, jitter=jitter
        )

    def list(self) -> builtins.list[ScheduleInfo]:
        return self._run(self._schedules.list)

    def pause(self, name: str) -> None:
        self._run(self._schedules.pause, name)

    def resume(self, name: str) -> None:
        self._run(self._schedules.resume, name)

    def run_now(self, name: str) -> Job[Any]:
        return self._run(self._schedules.run_now, name)

    def remove(self, name: str) -> None:
        self._run(self._schedules.remove, name)
