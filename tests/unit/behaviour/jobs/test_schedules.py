"""Schedules as users declare, add, list, pause, run and remove them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from headrace import App, ConfigurationError, JobStatus, QueueFull, RetryPolicy, ScheduleInfo, signals
from headrace.core.runtime.clock import MovableClock
from headrace.store import Stream
from headrace.testing import Kit, memory, run_inline
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of


async def seen(store: InterceptedStore) -> bool:
    """Whether a worker has seen the schedules of the default queue."""
    return bool((await store.schedules([Stream("queue", "default")])).records)


async def names(app: App) -> list[str]:
    return [info.name for info in await app.schedules.list()]


def has_run(runs: list[int], times: int) -> bool:
    return len(runs) == times


# --- declared -----------------------------------------------------------------------------------------------


async def test_a_function_becomes_a_task_that_runs_by_itself(app: App, store: InterceptedStore) -> None:
    runs: list[int] = []

    @app.every(30)
    async def tidy_up(deep: bool = False) -> None:
        runs.append(len(runs))

    async with app.worker(lease=LONG):
        await wait_until(lambda: seen(store))
        for number in (1, 2, 3):
            store.pass_time(30)
            await wait_until(partial(has_run, runs, number))
    assert tidy_up.name in app.tasks
    await tidy_up(deep=True)
    assert len(runs) == 4


async def test_a_task_keeps_its_options(app: App) -> None:
    @app.cron("0 9 * * mon-fri", tz="Europe/London")
    @app.task(name="remind", queue="mails", priority="high", timeout=5)
    def remind() -> str:
        return "done"

    assert (remind.name, remind.options.queue) == ("remind", "mails")
    [info] = await app.schedules.list()
    assert (info.name, info.task, info.queue, info.cron, info.tz) == (
        "remind",
        "remind",
        "mails",
        "0 9 * * mon-fri",
        "Europe/London",
    )
    assert info.declared
    assert info.next_at is not None
    assert info.next_at.weekday() < 5
    assert info.next_at > datetime.now(UTC)


async def test_what_a_call_says_differently_goes_with_every_job(app: App) -> None:
    app.every(60)(app.task(name="greet")(greet).with_(queue="low", headers={"why": "schedule"}, expires=600))
    job = await app.schedules.run_now("greet")
    assert job.queue == "low"
    contents = await app.admin.contents(job.id, queue="low")
    assert contents is not None
    assert contents.headers == {"why": "schedule"}


def greet() -> str:
    return "hello"


async def test_two_schedules_of_one_task_need_two_names(app: App) -> None:
    @app.cron("0 9 * * *")
    @app.cron("0 17 * * *", name="evening")
    @app.task(name="remind")
    def remind() -> None: ...

    assert await names(app) == ["evening", "remind"]
    with pytest.raises(ConfigurationError, match="another schedule called 'remind'"):
        app.every(5)(remind)


async def test_a_module_that_is_imported_twice_declares_the_same_again(app: App) -> None:
    for _ in range(2):
        app.every(5)(greet)
    assert len(await app.schedules.list()) == 1


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (lambda app: app.cron("61 * * * *"), "no cron expression"),
        (lambda app: app.cron("0 0 0 0"), "no cron expression"),
        (lambda app: app.cron("@reboot"), "enqueue the job where your program starts"),
        (lambda app: app.cron("@fortnightly"), "there are @yearly, .*@hourly"),
        (lambda app: app.cron(5), "texts"),
        (lambda app: app.cron("* * * * *", tz="Mars"), "no time zone 'Mars'"),
        (lambda app: app.cron("* * * * *", catch_up="none"), "catch_up must be"),
        (lambda app: app.cron("* * * * *", jitter=-1), "jitter"),
        (lambda app: app.every(0), "more than 0"),
        (lambda app: app.every(0.0001), "at least"),
        (lambda app: app.every("5"), "seconds or a timedelta"),
        (lambda app: app.every("@daily"), "seconds or a timedelta; '@daily' goes with cron"),
        (lambda app: app.every(5, name="no spaces")(greet), "schedule name"),
        (lambda app: app.every(5)(app.task(name="x")(lambda number: number)), "needs arguments"),
        (lambda app: app.every(5)(app.task(greet).with_(job_id="one")), "job_id="),
        (lambda app: app.every(5)(app.task(greet).with_(at=datetime.now(UTC))), "at="),
    ],
)
async def test_what_cannot_work_is_refused(app: App, schedule: Callable[[App], Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        schedule(app)


@pytest.mark.parametrize(
    ("nickname", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
async def test_a_nickname_of_cron_stands_for_its_fields(app: App, nickname: str, fields: str) -> None:
    task = app.task(name="greet")(greet)
    app.cron(nickname, tz="Europe/London", name="declared")(task)
    await app.schedules.add("added", task.call(), cron=nickname, tz="Europe/London")
    await app.schedules.add("fields", task.call(), cron=fields, tz="Europe/London")
    added, declared, by_fields = await app.schedules.list()
    assert added.cron == declared.cron == nickname
    assert added.next_at == declared.next_at == by_fields.next_at is not None


# --- at run time --------------------------------------------------------------------------------------------


@pytest.fixture
def report(app: App) -> Any:
    @app.task(name="report")
    async def report(number: int) -> int:
        return number

    return report


async def test_a_schedule_is_added_listed_and_removed(app: App, report: Any) -> None:
    added = await app.schedules.add("report-7", report.call(7), every=timedelta(minutes=5), jitter=3)
    assert await app.schedules.list() == [added]
    assert added == ScheduleInfo(
        name="report-7", queue="default", task="report", every=300.0, jitter=3.0, next_at=added.next_at
    )
    assert added.next_at is not None
    await app.schedules.remove("report-7")
    assert await app.schedules.list() == []
    with pytest.raises(ConfigurationError, match="no schedule called 'report-7'"):
        await app.schedules.remove("report-7")


async def test_an_added_schedule_fires_with_its_arguments(
    app: App, store: InterceptedStore, report: Any
) -> None:
    async with app.worker(lease=LONG):
        await app.schedules.add("report-7", report.call(7), every=60)
        store.pass_time(60)
        succeeded = await _succeeded(app)
        assert await succeeded.result(timeout=5) == 7
        [info] = await app.schedules.list()
        assert info.last_at is not None


async def _succeeded(app: App) -> Any:
    async def ended() -> list[str]:
        return [job.id for job in await app.admin.jobs("default", state=JobStatus.SUCCEEDED)]

    await wait_until(ended)
    return app.job((await ended())[0])


async def test_a_running_worker_hears_of_a_new_schedule(app: App, report: Any) -> None:
    async with app.worker():
        await app.schedules.add("quick", report.call(1), every=0.05)
        job = await _succeeded(app)
        assert await job.result(timeout=5) == 1
        await app.schedules.pause("quick")


async def test_adding_a_schedule_under_a_name_that_is_taken_is_refused(app: App, report: Any) -> None:
    await app.schedules.add("nightly", report.call(1), cron="0 3 * * *", tz="Asia/Tokyo")
    for call, options in (
        (report.call(1), {"cron": "0 3 * * *", "tz": "Asia/Tokyo"}),
        (report.call(2), {"cron": "0 3 * * *", "tz": "Asia/Tokyo"}),
        (report.call(1), {"every": 5}),
        (report.with_(queue="elsewhere").call(1), {"cron": "0 3 * * *", "tz": "Asia/Tokyo"}),
    ):
        with pytest.raises(ConfigurationError, match="another schedule called 'nightly'"):
            await app.schedules.add("nightly", call, **options)


async def test_a_declared_one_is_neither_added_nor_removed_at_run_time(app: App, report: Any) -> None:
    app.every(5, name="mine")(greet)
    with pytest.raises(ConfigurationError, match="another schedule called 'mine'"):
        await app.schedules.add("mine", report.call(1), every=5)
    with pytest.raises(ConfigurationError, match="declared in the code"):
        await app.schedules.remove("mine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either cron= or every="),
        ({"cron": "* * * * *", "every": 5}, "either cron= or every="),
        ({"every": 5, "tz": "UTC"}, "tz= goes with cron="),
    ],
)
async def test_one_of_cron_and_every(app: App, report: Any, options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        await app.schedules.add("x", report.call(1), **options)
    with pytest.raises(ConfigurationError, match="enqueue takes a call"):
        await app.schedules.add("x", report, every=5)


async def test_a_paused_schedule_lets_its_moments_pass(app: App, store: InterceptedStore) -> None:
    app.every(10, name="tidy", catch_up="all")(greet)
    await app.schedules.pause("tidy")
    [info] = await app.schedules.list()
    assert (info.paused, info.next_at) == (True, None)
    async with app.worker(lease=LONG):
        store.pass_time(1000)
        await app.schedules.resume("tidy")
        store.pass_time(10)
        await _succeeded(app)
    assert len(list(await app.admin.jobs("default"))) == 1
    with pytest.raises(ConfigurationError, match="no schedule called 'nix'; there are: tidy"):
        await app.schedules.pause("nix")


async def test_run_now_enqueues_once_and_leaves_the_times_alone(app: App, report: Any) -> None:
    added = await app.schedules.add("report-7", report.call(7), every=3600)
    job = await app.schedules.run_now("report-7")
    assert (job.task, job.queue) == ("report", "default")
    await drain(app)
    assert await job.result(timeout=5) == 7
    [info] = await app.schedules.list()
    assert (info.last_at, info.next_at) == (None, added.next_at)


async def test_run_now_heeds_the_limit_and_the_unique_key() -> None:
    small = App("memory://", queue_limit=1)
    task = small.task(name="greet")(greet)
    async with small:
        await small.schedules.add("greet", task.call().with_(unique=True), every=60)
        first = await small.schedules.run_now("greet")
        again = await small.schedules.run_now("greet")
        assert (again.id, again.duplicate) == (first.id, True)
        await small.schedules.add("plain", task.call(), every=60)
        with pytest.raises(QueueFull):
            await small.schedules.run_now("plain")


async def test_another_app_on_the_store_sees_what_it_can(clock: MovableClock) -> None:
    url = f"memory://{id(clock)}"
    owner, guest = App(url, clock=clock), App(url, clock=clock)
    owner.every(60, name="tidy")(greet)
    await owner.schedules.pause("tidy")
    assert await guest.schedules.list() == [
        ScheduleInfo(name="tidy", queue="default", declared=True, paused=True)
    ]
    with pytest.raises(ConfigurationError, match="this process does not have"):
        await guest.schedules.run_now("tidy")
    await guest.schedules.resume("tidy")
    assert not (await owner.schedules.list())[0].paused
    await owner.close()
    await guest.close()


async def test_a_burst_does_not_fire(app: App, clock: MovableClock, heard: list[signals.Signal]) -> None:
    app.every(10, name="tidy", catch_up="all")(greet)
    await app.schedules.resume("tidy")
    clock.advance(100)
    await drain(app)
    assert of(signals.JobEnqueued, heard) == []


async def test_retries_and_results_are_those_of_any_job(app: App, store: InterceptedStore) -> None:
    runs: list[int] = []

    @app.every(10)
    @app.task(name="flaky", retry=RetryPolicy.fixed(1, 0))
    async def flaky() -> str:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("not yet")
        return "done"

    async with app.worker(lease=LONG):
        await wait_until(lambda: seen(store))
        store.pass_time(10)
        job = await _succeeded(app)
        assert await job.result(timeout=5) == "done"


def test_the_same_for_plain_code() -> None:
    app = App("memory://")

    @app.task(name="report")
    def report(number: int) -> int:
        return number

    schedules = app.sync.schedules
    schedules.add("report-7", report.call(7), every=60)
    schedules.pause("report-7")
    assert schedules.list()[0].paused
    schedules.resume("report-7")
    assert schedules.run_now("report-7").task == "report"
    schedules.remove("report-7")
    assert schedules.list() == []
    app.sync.close()


# --- in tests -----------------------------------------------------------------------------------------------


async def test_the_kit_moves_the_clock_of_schedules() -> None:
    app = App("sqlite:///never-made.db")
    app.every(3600, name="tidy")(app.task(name="greet")(greet))
    with memory(app) as kit:
        await app.schedules.resume("tidy")  # so that it counts from now on
        async with app.worker(grace=1):
            for jobs in (1, 2):
                kit.clock.advance(3600)
                await wait_until(partial(_has_enqueued, kit, jobs))
        kit.assert_enqueued("greet", count=2)


def _has_enqueued(kit: Kit, jobs: int) -> bool:
    return len(kit.enqueued("greet")) == jobs


async def test_a_drain_fires_nothing_and_run_now_runs_inline() -> None:
    app = App("sqlite:///never-made.db")
    app.every(3600, name="tidy")(app.task(name="greet")(greet))
    with run_inline(app) as kit:
        kit.clock.advance(10_000)
        await kit.drain()
        assert kit.enqueued() == []
        job = await app.schedules.run_now("tidy")
        assert await job.result(timeout=5) == "hello"
