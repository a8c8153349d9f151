"""Later: delay and at, never early, and not at all when a job has expired."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace import App, ConfigurationError, JobExpired, JobStatus, Snooze, signals
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.runtime.clock import MovableClock
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import LONG, drain, of, until


async def test_a_delayed_job_runs_when_its_time_has_come(app: App, store: InterceptedStore) -> None:
    seen: list[str] = []

    @app.task(name="see")
    async def see(what: str) -> None:
        seen.append(what)

    job = await see.with_(delay=60).enqueue("later")
    async with app.worker(lease=LONG):
        await see.enqueue("now")
        await wait_until(lambda: seen)
        assert await job.status() is JobStatus.SCHEDULED
        store.pass_time(59)
        await (await see.enqueue("still not")).wait(timeout=10)
        assert seen == ["now", "still not"]
        store.pass_time(1)
        await job.wait(timeout=10)
    assert seen == ["now", "still not", "later"]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5))])
async def test_a_job_runs_at_the_time_given(app: App, clock: MovableClock, zone: timezone) -> None:
    @app.task(name="see")
    async def see() -> str:
        return "seen"

    at = datetime.now(zone) + timedelta(hours=1)
    job = await see.with_(at=at).enqueue()
    assert abs(((await job.info()).due_at or at) - at) < timedelta(milliseconds=1)
    await drain(app)
    assert await job.status() is JobStatus.SCHEDULED
    clock.advance(3600)
    await drain(app)
    assert await job.result() == "seen"


async def test_a_time_that_has_passed_means_now(app: App) -> None:
    @app.task(name="see")
    async def see() -> str:
        return "seen"

    job = await see.with_(at=datetime(2000, 1, 1, tzinfo=UTC)).enqueue()
    assert await job.status() is JobStatus.QUEUED
    await drain(app)
    assert await job.result() == "seen"


async def test_jobs_are_run_in_the_order_of_their_times(app: App, clock: MovableClock) -> None:
    seen: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> None:
        seen.append(n)

    await app.enqueue_many([see.call(n).with_(delay=n) for n in (30, 10, 20)])
    clock.advance(60)
    await drain(app, concurrency=1)
    assert seen == [10, 20, 30]


async def test_a_job_enqueued_under_a_sleeping_worker_is_on_time(app: App) -> None:
    @app.task(name="see")
    async def see() -> float:
        return datetime.now(UTC).timestamp()

    async with app.worker():
        await (await see.enqueue()).result(timeout=10)
        wanted = datetime.now(UTC).timestamp() + 0.05
        ran = await (await see.with_(delay=0.05).enqueue()).result(timeout=10)
    assert wanted <= ran < wanted + 2


async def test_a_delay_may_be_a_timedelta(app: App, clock: MovableClock) -> None:
    @app.task(name="see")
    async def see() -> str:
        return "seen"

    job = await see.with_(delay=timedelta(minutes=1)).enqueue()
    clock.advance(60)
    await drain(app)
    assert await job.result() == "seen"


# --- expiry --------------------------------------------------------------------------------------------


async def test_a_job_that_was_not_started_in_time_never_runs(
    app: App, clock: MovableClock, heard: list[signals.Signal]
) -> None:
    ran: list[int] = []

    @app.task(name="see", expires=60)
    async def see() -> int:
        ran.append(1)
        return 1

    job = await see.enqueue()
    clock.advance(61)
    await drain(app)
    assert ran == []
    assert await job.status() is JobStatus.EXPIRED
    assert await job.wait() is JobStatus.EXPIRED
    with pytest.raises(JobExpired, match="was not started before it expired"):
        await job.result()
    assert of(signals.JobExpired, heard) == [signals.JobExpired(job.id, "see", "default")]


async def test_a_job_started_in_time_does_not_expire(app: App, clock: MovableClock) -> None:
    @app.task(name="see", expires=60)
    async def see() -> int:
        return 1

    job = await see.enqueue()
    clock.advance(50)
    await drain(app)
    assert await job.result() == 1


async def test_expiry_counts_from_the_moment_a_job_could_first_run(app: App, clock: MovableClock) -> None:
    @app.task(name="see")
    async def see() -> int:
        return 1

    in_time = await see.with_(delay=3600, expires=60).enqueue()
    clock.advance(3650)
    await drain(app)
    assert await in_time.result() == 1
    too_late = await see.with_(delay=3600, expires=60).enqueue()
    clock.advance(3661)
    await drain(app)
    assert await too_late.status() is JobStatus.EXPIRED


async def test_a_call_may_expire_sooner_than_its_task_says(app: App, clock: MovableClock) -> None:
    @app.task(name="see", expires=3600)
    async def see() -> int:
        return 1

    job = await see.with_(expires=10).enqueue()
    clock.advance(11)
    await drain(app)
    assert await job.status() is JobStatus.EXPIRED


async def test_a_retry_does_not_expire(app: App, store: InterceptedStore, clock: MovableClock) -> None:
    @app.task(name="see", expires=60, retry=lambda failures, error: 3600)
    async def see() -> int:
        if clock.offset_us < 3600_000_000:
            raise ValueError("not yet")
        return 1

    job = await see.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.RETRYING)
        store.pass_time(3600)
        assert await job.result(timeout=10) == 1


async def test_a_snoozed_job_was_started_and_does_not_expire(
    app: App, store: InterceptedStore, clock: MovableClock
) -> None:
    @app.task(name="see", expires=60)
    async def see() -> int:
        if clock.offset_us < 3600_000_000:
            raise Snooze(3600)
        return 1

    job = await see.enqueue()
    async with app.worker(lease=LONG):
        await until(job, JobStatus.SCHEDULED)
        store.pass_time(3600)
        assert await job.result(timeout=10) == 1


async def test_a_job_that_ran_when_its_worker_stopped_does_not_expire(app: App, clock: MovableClock) -> None:
    inside = asyncio.Event()

    @app.task(name="see", expires=60)
    async def see() -> int:
        if not inside.is_set():
            inside.set()
            await asyncio.Event().wait()
        return 1

    job = await see.enqueue()
    async with app.worker(grace=0):
        await inside.wait()
    clock.advance(61)
    await drain(app)
    assert await job.result() == 1


# --- priorities ----------------------------------------------------------------------------------------


async def test_high_overtakes_a_backlog_and_low_waits_for_it(app: App) -> None:
    order: list[str] = []

    @app.task(name="see")
    async def see(what: str) -> None:
        order.append(what)

    await app.enqueue_many([see.call("normal") for _ in range(500)])
    await app.enqueue_many([see.call("low").with_(priority="low") for _ in range(5)])
    await app.enqueue_many([see.call("high").with_(priority="high") for _ in range(5)])
    await drain(app, concurrency=1)
    assert order[:5] == ["high"] * 5
    assert len(order) == 510
    assert order.index("low") > 5


async def test_a_high_job_overtakes_what_a_busy_worker_has_not_claimed_yet(app: App) -> None:
    order: list[str] = []

    @app.task(name="see")
    async def see(what: str) -> None:
        order.append(what)
        if len(order) == 100:
            await see.with_(priority="high").enqueue("high")

    await app.enqueue_many([see.call("normal") for _ in range(5000)])
    await drain(app, concurrency=1)
    assert "high" in order[100:2500]


async def test_a_task_has_a_priority_of_its_own(app: App) -> None:
    order: list[str] = []

    @app.task(name="slow", priority="low")
    async def slow() -> None:
        order.append("low")

    @app.task(name="urgent", priority="high")
    async def urgent() -> None:
        order.append("high")

    low, high = await slow.enqueue(), await urgent.enqueue()
    assert ((await low.info()).priority, (await high.info()).priority) == ("low", "high")
    await drain(app, concurrency=1)
    assert order == ["high", "low"]


@pytest.mark.parametrize("at", [datetime.max.replace(tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)])
async def test_a_time_that_no_store_can_count_is_refused(app: App, at: datetime) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    with pytest.raises(ConfigurationError, match="at must be before 2200-01-01 UTC"):
        see.with_(at=at)
    with pytest.raises(ConfigurationError, match="at must be before 2200-01-01 UTC"):
        await app.topic("seen").publish(1, at=at)
    with pytest.raises(ConfigurationError, match="from 0 to 1,000,000,000 seconds"):
        see.with_(delay=timedelta(days=50 * 365))


async def test_the_last_time_that_can_be_given_is_listed(app: App) -> None:
    @app.task(name="see")
    async def see() -> None: ...

    at = datetime(2199, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    job = await see.with_(at=at, expires=1e9).enqueue()
    [info] = await app.admin.jobs()
    assert info.due_at == (await job.info()).due_at == at


@pytest.mark.parametrize("due_us", [253_402_300_800_000_000, (1 << 62), 1 << 53])
async def test_a_listing_shows_whatever_time_is_stored(
    app: App, store: InterceptedStore, due_us: int
) -> None:
    """Another program, or an older version, has stored it."""
    message = Message("strange", "see", b"no envelope", due_us=due_us)
    async with app:
        await store.append(Batch(Stream("queue", "default"), "producer", 1, [message]))
        [info] = await app.admin.jobs()
        assert info.due_at is not None
        assert info.due_at.year >= 2255
