"""What type checkers must say of a user's code: mypy and pyright read this file, nobody runs it.

A wrong line carries an ignore of exactly its error. Both checkers report an ignore that is not needed, so a
mistake that is no longer seen is an error here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from headrace import (
    App,
    Call,
    DeadLetter,
    Job,
    JobInfo,
    JobStatus,
    Page,
    Queue,
    RetryPolicy,
    Run,
    ScheduleInfo,
    Task,
    current_job,
    signals,
)

app = App("memory://", result_ttl=timedelta(hours=1), retry=RetryPolicy.none())
assert_type(app.queue("reports", partitions=8), Queue)
assert_type(app.queue("reports").partitions, int | None)
app.queue("reports", partitions="8")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="reports", priority="high", timeout=timedelta(minutes=5), unique=True, unique_until=60)
def render(report_id: int, *, title: str = "") -> str:
    return f"{title} {report_id}"


@app.task(retry=lambda failures, error: 2.0 * failures if isinstance(error, OSError) else None)
async def notify(to: str) -> None: ...


@app.cron("0 9 * * mon-fri", tz="Europe/London", catch_up="one", jitter=timedelta(seconds=5))
async def remind(days: int = 1) -> str:
    return f"in {days} days"


@app.every(30)
def tidy_up() -> None: ...


@app.every(timedelta(minutes=1), catch_up="all")
@app.task(queue="reports")
async def sweep(deep: bool = False) -> int:
    return int(deep)


assert_type(add.name, str)
assert_type(remind.call(2), Call[str])
assert_type(tidy_up.call(), Call[None])
assert_type(sweep.call(deep=True), Call[int])


async def check_schedules() -> None:
    await app.schedules.add("report-7", render.call(7), cron="0 9 * * *", tz="Asia/Tokyo", catch_up="one")
    assert_type(await app.schedules.list(), list[ScheduleInfo])
    assert_type(app.sync.schedules.list(), list[ScheduleInfo])
    assert_type(await app.schedules.run_now("report-7"), Job[Any])
    await sweep.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.cron("* * * * *", catch_up="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def check_a_plain_functions_task() -> None:
    assert_type(render(7, title="sums"), str)
    assert_type(render.call(7), Call[str])
    task: Task[..., str] = render
    assert_type(task.call(7), Call[str])


async def check_enqueueing() -> None:
    assert_type(await add(2, 3), int)
    assert_type(await add.enqueue(2, 3), Job[int])
    assert_type(await add.enqueue(2, b=3), Job[int])
    assert_type(await render.enqueue(7, title="sums"), Job[str])
    assert_type(await notify.enqueue("ada"), Job[None])


async def check_wrong_arguments() -> None:
    await add.enqueue("x", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await add.enqueue(2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await add.enqueue(2, 3, 4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await add.enqueue(2, c=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await add("x", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add.call(2, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    render("seven")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await render.enqueue(7, "sums")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def check_calls() -> None:
    call = add.call(2, 3)
    assert_type(call, Call[int])
    assert_type(call.with_(delay=60), Call[int])
    assert_type(await app.enqueue(call), Job[int])
    assert_type(await app.enqueue(render.call(7).with_(priority="low")), Job[str])
    assert_type(await app.enqueue_many([add.call(2, 3), render.call(7)]), list[Job[Any]])


async def check_options_of_calls() -> None:
    assert_type(await add.with_(delay=60).enqueue(2, 3), Job[int])
    assert_type(render.with_(delay=60)(7), str)
    assert_type(await add.with_(at=datetime.now(UTC), headers={"source": "web"}).enqueue(2, 3), Job[int])
    assert_type(await add.with_(delay=timedelta(minutes=1), timeout=None)(2, 3), int)
    add.with_(unique_key="a", unique_until="started", expires=60, job_id="b", result_ttl=0, unique=False)
    add.with_(retry=RetryPolicy.exponential(5, base=1.0), queue="other")
    add.with_(dely=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    add.with_(delay="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add.with_(priority="urgent")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    add.call(2, 3).with_(retry=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await add.with_(delay=60).enqueue("x", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.task(queue="mails", timeout=None, unique_until=timedelta(minutes=1), run_in="process")
    app.task(queu="mails")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    app.task(priority="urgent")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def check_options_of_apps_and_workers() -> None:
    App("memory://", queue_limit=10, max_payload=1000)
    App("memory://", queue_limt=10)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    App("memory://", durability="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.worker(queues=["a"], concurrency=5, lease=timedelta(seconds=30), grace=0)
    app.worker(queue="a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def check_jobs() -> None:
    job = await add.enqueue(2, 3)
    assert_type(await job.result(timeout=10), int)
    assert_type(await job.result(timedelta(seconds=10)), int)
    assert_type(await job.status(), JobStatus)
    assert_type(await job.info(), JobInfo)
    assert_type(await job.wait(), JobStatus)
    assert_type(await job.cancel(), bool)
    assert_type(job.duplicate, bool)
    assert_type(app.job("id"), Job[Any])


def check_sync() -> None:
    job = app.sync.enqueue(add.call(2, 3))
    assert_type(job, Job[int])
    assert_type(app.sync.result(job, timeout=10), int)
    assert_type(app.sync.status(job), JobStatus)
    assert_type(app.sync.wait(job), JobStatus)
    assert_type(app.sync.enqueue_many([add.call(2, 3)]), list[Job[Any]])
    assert_type(app.sync.schedules.run_now("nightly"), Job[Any])
    app.sync.result(job, timeout="10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.sync.admin.pause(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(app.sync.admin.dead(), Page[DeadLetter])


async def check_admin() -> None:
    page = await app.admin.dead(queue="default")
    assert_type(page, Page[DeadLetter])
    assert_type([letter.payload for letter in page], list[bytes])
    assert_type(await app.admin.jobs(state="dead"), Page[JobInfo])
    assert_type(await app.admin.job("id"), JobInfo | None)


@app.use
async def middleware(run: Run, call_next: Any) -> object:
    assert_type(run.attempt, int)
    return await call_next(run)


@app.on(signals.JobDied)
def mourn(signal: signals.JobDied) -> None:
    assert_type(signal.error, str)


@app.on(signals.JobDied)
async def mourn_slowly(signal: signals.JobDied) -> None: ...


def check_decorated_functions_keep_their_types() -> None:
    died = signals.JobDied("id", "task", "queue", attempt=1, reason="exhausted", error_type="E", error="no")
    mourn(died)
    waiting: Awaitable[None] = mourn_slowly(died)
    del waiting


def check_current_job() -> None:
    run = current_job()
    assert_type(run.id, str)
    assert_type(run.deadline, datetime | None)
    assert_type(run.cancelled, bool)
