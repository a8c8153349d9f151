"""Schedules with a beginning, an end and a limit, and schedules that are replaced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import App, ConfigurationError, Task
from tests.integration.api.conftest import MakeApp
from tests.support.waiting import wait_until


def report(app: App) -> Task[[int], None]:
    @app.task(name="report", result_ttl=0)
    async def report(number: int) -> None: ...

    return report


async def fired(app: App, name: str) -> int:
    [info] = [each for each in await app.schedules.list() if each.name == name]
    return info.fired


async def test_a_schedule_ends_at_its_limit(make_app: MakeApp) -> None:
    app = make_app()
    ran: list[int] = []

    @app.task(name="count", result_ttl=0)
    async def count(number: int) -> None:
        ran.append(number)

    added = await app.schedules.add("count", count.call(7), every=0.02, limit=3)
    assert (added.limit, added.fired) == (3, 0)

    async def is_over() -> bool:
        [info] = await app.schedules.list()
        return info.fired == 3 and info.next_at is None

    async with app.worker(), make_app_worker(app):
        await wait_until(is_over)
        await app.schedules.add("other", count.call(8), every=0.02, limit=1)

        async def other_is_over() -> bool:
            return await fired(app, "other") == 1

        await wait_until(other_is_over)  # the worker has looked since
        await wait_until(lambda: len(ran) == 4)
    assert sorted(ran) == [7, 7, 7, 8]
    # `put` of an equal schedule changes nothing, also when the schedule is over.
    again = await app.schedules.put("count", count.call(7), every=0.02, limit=3)
    assert again.fired == 3
    # Another limit: it starts anew.
    assert (await app.schedules.put("count", count.call(7), every=0.02, limit=2)).fired == 0


def make_app_worker(app: App) -> Any:
    """A second worker: a moment is fired once, whichever worker fires it."""
    return app.worker()


async def test_a_schedule_fires_between_its_start_and_its_end(make_app: MakeApp) -> None:
    app, now = make_app(), datetime.now(UTC)
    task = report(app)
    starts, ends = now + timedelta(days=1), now + timedelta(days=2)
    info = await app.schedules.add("daily", task.call(1), every=3600, starts=starts, ends=ends)
    assert (info.starts, info.ends, info.next_at) == (starts, ends, starts)
    info = await app.schedules.add("past", task.call(1), cron="* * * * *", ends=now - timedelta(seconds=1))
    assert info.next_at is None
    info = await app.schedules.add(
        "noon", task.call(1), cron="0 12 * * *", starts=datetime(2199, 5, 1, 12, tzinfo=UTC)
    )
    assert info.next_at == datetime(2199, 5, 1, 12, tzinfo=UTC)
    # Intervals count from a start in the past.
    info = await app.schedules.add("grid", task.call(1), every=3600, starts=datetime(2020, 1, 1, tzinfo=UTC))
    assert info.next_at is not None
    assert (info.next_at.minute, info.next_at.second, info.next_at.microsecond) == (0, 0, 0)


async def test_put_replaces_what_add_refuses(make_app: MakeApp) -> None:
    app = make_app()
    task = report(app)
    first = await app.schedules.put("report", task.call(1), every=3600)
    for number in (1, 2):
        with pytest.raises(ConfigurationError, match="another schedule called 'report'"):
            await app.schedules.add("report", task.call(number), every=3600)
    # Only the call has changed: its times go on.
    other = await app.schedules.put("report", task.call(2), every=3600)
    assert other.next_at == first.next_at
    await app.schedules.pause("report")
    other = await app.schedules.put("report", task.call(2), every=7200)
    assert (other.every, other.paused) == (7200, True)
    await app.schedules.resume("report")
    job = await app.schedules.run_now("report")
    info = await app.admin.contents(job.id)
    assert info is not None
    assert list(info.args) == [2]


async def test_put_moves_a_schedule_to_another_queue(make_app: MakeApp) -> None:
    app = make_app()
    task = report(app)
    await app.schedules.put("report", task.call(1), cron="@daily")
    await app.schedules.put("report", task.with_(queue="reports").call(1), cron="@daily")
    [info] = await app.schedules.list()
    assert (info.queue, info.cron) == ("reports", "@daily")


async def test_plain_code_puts_schedules(make_app: MakeApp) -> None:
    app = make_app()
    info = app.sync.schedules.put("report", report(app).call(1), every=60, limit=5)
    assert (info.limit, info.every) == (5, 60)
    app.sync.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": datetime(2030, 1, 1)}, "starts must be a datetime with a time zone"),
        ({"ends": "tomorrow"}, "ends must be a datetime with a time zone"),
        ({"limit": 0}, "limit must be a whole number from 1"),
        (
            {"starts": datetime(2031, 1, 1, tzinfo=UTC), "ends": datetime(2030, 1, 1, tzinfo=UTC)},
            "is before starts=",
        ),
    ],
)
async def test_wrong_bounds_are_refused(options: dict[str, Any], message: str) -> None:
    app = App("memory://")
    for verb in (app.schedules.add, app.schedules.put):
        with pytest.raises(ConfigurationError, match=message):
            await verb("report", report(app).call(1), every=60, **options)


async def test_a_declared_schedule_is_not_replaced(make_app: MakeApp) -> None:
    app = make_app()

    @app.every(60, name="tick")
    async def tick() -> None: ...

    with pytest.raises(ConfigurationError, match="another schedule called 'tick'"):
        await app.schedules.put("tick", report(app).call(1), every=60)
