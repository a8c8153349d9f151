"""What type checkers must say of a user's code: mypy and pyright read this file, nobody runs it.

A wrong line carries an ignore of exactly its error. Both checkers report an ignore that is not needed, so a
mistake that is no longer seen is an error here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import msgspec

from headrace import (
    App,
    BatchResult,
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
app.queue("mails", slots=20, on_dead="report", retry=RetryPolicy.none(), dead_retention=60.0, dead_limit=10)
app.queue("mails", slots="20")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.queue("mails", on_dead=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.worker(queues={"mails": 20, "reports": None})
app.worker(queues={"mails": "20"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
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
    assert_type(await app.enqueue_many([add.call(2, 3), add.call(b=3, a=2)]), list[Job[int]])


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
    assert_type(app.sync.enqueue_many([add.call(2, 3)]), list[Job[int]])
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
    assert_type(signal.dead_letter, DeadLetter)
    assert_type(signal.dead_letter.payload, bytes)


@app.on(signals.JobDied)
async def mourn_slowly(signal: signals.JobDied) -> None: ...


def check_decorated_functions_keep_their_types(died: signals.JobDied) -> None:
    mourn(died)
    waiting: Awaitable[None] = mourn_slowly(died)
    del waiting


class Document(msgspec.Struct):
    number: int


@app.task(batch=100, batch_wait=0.05)
async def index(documents: list[Document]) -> list[int]:
    return []


@app.task(batch=100, queue="index")
def index_quietly(documents: list[Document]) -> None: ...


@app.task(batch=100)
async def index_partly(documents: list[Document]) -> BatchResult:
    return BatchResult()


async def check_batch_tasks() -> None:
    assert_type(await index.enqueue(Document(1)), Job[int])
    assert_type(await index_quietly.enqueue(Document(1)), Job[None])
    assert_type(await index_partly.with_(delay=1).enqueue(Document(1)), Job[None])
    await index.enqueue([Document(1)])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await app.enqueue_many([index.call(Document(1)), index_quietly.call(Document(2))])


async def check_many_results(jobs: list[Job[int]]) -> None:
    assert_type(await app.results(jobs), list[int])
    assert_type(await app.results(jobs, 5), list[int])
    assert_type(await app.results(jobs, timeout=5, return_exceptions=True), list[int | BaseException])
    assert_type(app.sync.results(jobs, timeout=5), list[int])


def check_short_forms(job: Job[str]) -> None:
    assert_type(add.sync.enqueue(1, 2), Job[int])
    assert_type(add.with_(delay=1).sync.enqueue(1, 2), Job[int])
    add.sync.enqueue("x", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(job.sync.result(timeout=10), str)
    assert_type(job.sync.wait(), JobStatus)
    assert_type(job.sync.status(), JobStatus)
    assert_type(job.sync.info(), JobInfo)
    assert_type(job.sync.cancel(), bool)


async def check_tasks_by_name() -> None:
    send = app.remote("billing.send", queue="billing")
    assert_type(await send.enqueue(7, to="a"), Job[Any])
    assert_type(await send.with_(unique_key="a").enqueue(7), Job[Any])
    assert_type(send.sync.enqueue(7), Job[Any])


@app.task(version=2)
async def greet(first: str, last: str) -> None: ...


@greet.upcast(from_version=1)
def split_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return args[0].split(" "), kwargs


async def check_schedules_that_are_replaced() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    info = await app.schedules.put("a", add.call(1, 2), every=60, starts=at, ends=at, limit=5)
    assert_type(info, ScheduleInfo)
    assert_type(info.limit, int | None)
    assert_type(info.starts, datetime | None)
    app.sync.schedules.put("a", add.call(1, 2), cron="@daily", limit=5)
    await app.schedules.put("a", add.call(1, 2), every=60, starts="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


App("memory://", validate=False, encoders={Point: (lambda point: point.x, Point)})


def check_retry_policies() -> None:
    assert_type(RetryPolicy.exponential(3), RetryPolicy)
    RetryPolicy.exponential(3, 1.0, 60, 1.5, timedelta(seconds=1), OSError, [KeyError])
    RetryPolicy.fixed(3, 1, on=(OSError, ValueError), give_up_on=KeyError)
    RetryPolicy.fixed(3, 1, on="OSError")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RetryPolicy.fixed(3, 1, on=[int])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def check_current_job() -> None:
    run = current_job()
    assert_type(run.id, str)
    assert_type(run.deadline, datetime | None)
    assert_type(run.cancelled, bool)
    assert_type(run.payload, bytes)
