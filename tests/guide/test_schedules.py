"""A schedule enqueues a job at its moments, each once, however many workers there are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace import App, ConfigurationError
from headrace.core.runtime.clock import MovableClock
from tests.support.waiting import wait_until


async def test_schedules_are_declared_beside_the_function() -> None:
    app = App("memory://")

    @app.cron("0 9 * * mon-fri", tz="Europe/London")
    async def remind() -> None:
        """A function becomes a task; it runs on working days at nine, summer and winter."""

    @app.every(30, jitter=5)
    @app.task(queue="upkeep", timeout=20)
    def tidy_up(deep: bool = False) -> None:
        """A task keeps its options."""

    async with app:
        first, second = await app.schedules.list()
        assert (first.task, first.cron, first.tz) == (remind.name, "0 9 * * mon-fri", "Europe/London")
        assert (second.task, second.every, second.queue) == (tidy_up.name, 30, "upkeep")
        assert first.next_at is not None
        assert first.next_at.weekday() < 5


async def test_workers_fire_them() -> None:
    clock = MovableClock()
    app = App("memory://", clock=clock)
    runs: list[str] = []

    @app.every(timedelta(hours=1), catch_up="all")
    async def count() -> None:
        runs.append("run")

    async with app, app.worker(lease=1e6), app.worker(lease=1e6):
        await app.schedules.resume(count.name)  # it is known to the store from here on
        clock.advance(3 * 3600)  # no worker was there, as it were
        await app.schedules.resume(count.name)
        await wait_until(lambda: len(runs) == 3)


async def test_schedules_are_added_at_run_time() -> None:
    app = App("memory://")

    @app.task
    async def report(customer: int) -> str:
        return f"report for {customer}"

    async with app:
        await app.schedules.add("report-7", report.call(7), cron="0 6 1 * *", tz="Asia/Tokyo", catch_up="one")
        [info] = await app.schedules.list()
        assert (info.name, info.declared) == ("report-7", False)

        job = await app.schedules.run_now("report-7")  # once, whatever its times
        await app.worker().run(burst=True)
        assert await job.result(timeout=10) == "report for 7"

        await app.schedules.pause("report-7")
        await app.schedules.resume("report-7")
        await app.schedules.remove("report-7")
        assert await app.schedules.list() == []


async def test_what_cannot_work_is_refused_where_it_is_written() -> None:
    app = App("memory://")
    with pytest.raises(ConfigurationError, match="no cron expression"):
        app.cron("0 25 * * *")
    with pytest.raises(ConfigurationError, match="no time zone"):
        app.cron("0 9 * * *", tz="Europe/Lodnon")
