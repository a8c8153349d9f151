"""The task of a queue that is called for each of its deaths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace import App, BatchResult, ConfigurationError, JobStatus, RetryPolicy, Unrecoverable, signals
from headrace.core.errors import BackendUnavailable
from headrace.core.runtime.clock import SECOND
from headrace.store import Settlement, Stream, Verdict
from tests.support.intercepted_store import InterceptedStore
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain, of

Report = tuple[str, str, str, str, str]


def reporting(app: App, **options: Any) -> list[Report]:
    """A queue `mails` whose deaths are reported, and the reports."""
    reports: list[Report] = []

    @app.task(name="report", queue="reports")
    async def report(id: str, task: str, queue: str, reason: str, error: str) -> None:
        reports.append((id, task, queue, reason, error))

    app.queue("mails", on_dead=report, **options)
    return reports


async def test_a_death_is_reported_once(app: App) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails", retry=RetryPolicy.fixed(2, 0))
    async def send() -> None:
        raise ValueError("no such address")

    job = await send.enqueue()
    await drain(app)
    assert reports == [(job.id, "send", "mails", "exhausted", "no such address")]
    assert await app.admin.outboxes() == []


async def test_jobs_of_other_queues_and_other_ends_are_not_reported(app: App) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send(fails: bool) -> None:
        if fails:
            raise ValueError

    await send.enqueue(False)
    await send.with_(queue="default").enqueue(True)
    cancelled = await send.enqueue(True)
    await cancelled.cancel()
    await drain(app)
    assert reports == []


async def test_a_task_that_is_named_may_take_its_arguments_by_order(app: App) -> None:
    app.queue("mails", on_dead="note")
    notes: list[tuple[str, str]] = []

    @app.task(name="note")
    def note(letter: str, what: str, where: str, why: str, text: str) -> None:
        notes.append((what, why))

    @app.task(name="send", queue="mails")
    async def send() -> None:
        raise Unrecoverable("why")

    await send.enqueue()
    await drain(app)
    assert notes == [("send", "unrecoverable")]


async def test_messages_that_no_handler_can_take_are_reported(app: App) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails")
    async def send(number: int) -> None: ...

    await app.remote("send", queue="mails").enqueue("seven")
    await drain(app)
    assert [(task, reason) for _, task, _, reason, _ in reports] == [("send", "invalid")]


async def test_the_failing_job_of_a_batch_is_reported(app: App) -> None:
    reports = reporting(app)

    @app.task(name="index", queue="mails", batch=10, retry=RetryPolicy.none())
    async def index(numbers: list[int]) -> BatchResult:
        return BatchResult(failed={place: "odd" for place, number in enumerate(numbers) if number % 2})

    await app.enqueue_many([index.call(number) for number in range(6)])
    await drain(app)
    assert [(task, error) for _, task, _, _, error in reports] == [("index", "odd")] * 3


@pytest.mark.parametrize("limit", [None, 1, 4])
async def test_a_job_that_crashed_too_often_is_reported(
    app: App, store: InterceptedStore, limit: int | None
) -> None:
    reports = reporting(app, crash_limit=limit)
    runs: list[str] = []

    @app.task(name="send", queue="mails")
    async def send() -> None:
        runs.append("run")

    job = await send.enqueue()
    mails = Stream("queue", "mails")
    await store.declare_stream(mails, SECOND)
    for _ in range(limit or 3):
        await store.claim([mails], consumer="gone", limit=1, suspects=1, wait=0)
        store.clock.advance(2)
        await store.reclaim([mails], limit=10, crash_limits={mails: 100})
    await drain(app)
    assert runs == []
    assert await job.status() is JobStatus.DEAD
    assert [(task, reason) for _, task, _, reason, _ in reports] == [("send", "crashed")]


async def test_the_store_leaves_deaths_by_crashes_to_the_workers(app: App, store: InterceptedStore) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails")
    async def send() -> None: ...

    await send.enqueue()
    mails = Stream("queue", "mails")
    await store.declare_stream(mails, SECOND)
    for _ in range(2):
        await store.claim([mails], consumer="gone", limit=1, suspects=1, wait=0)
        store.clock.advance(2)
        await store.reclaim([mails], limit=10)
    await store.claim([mails], consumer="gone", limit=1, suspects=1, wait=0)
    store.clock.advance(2)
    async with app.worker(lease=1):
        await wait_until(lambda: len(reports) == 1)
    assert reports[0][3] == "crashed"


async def test_a_settlement_that_is_repeated_is_reported_once(app: App, store: InterceptedStore) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    settle = store.settle
    lost: list[list[Verdict]] = []

    async def lose_the_answer(settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await settle(settlements)
        if len(lost) < 3:
            lost.append(verdicts)
            raise BackendUnavailable("the answer was lost", uncertain=True)
        return verdicts

    await send.enqueue()
    store.intercept("settle", lose_the_answer)
    await drain(app)
    assert len(reports) == 1


async def test_a_job_that_is_replayed_and_dies_again_is_reported_again(app: App) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    job = await send.enqueue()
    await drain(app)
    await app.admin.replay(ids=[job.id])
    await drain(app)
    assert [id for id, *_ in reports] == [job.id] * 2


async def test_the_death_of_a_report_is_not_reported(app: App, heard: list[signals.Signal]) -> None:
    calls: list[str] = []

    @app.task(name="report", queue="mails", retry=RetryPolicy.none())
    async def report(id: str, task: str, queue: str, reason: str, error: str) -> None:
        calls.append(task)
        if len(calls) < 10:
            raise ValueError

    @app.task(name="other", queue="mails", retry=RetryPolicy.none())
    async def other(id: str, task: str, queue: str, reason: str, error: str) -> None:
        calls.append(task)
        if len(calls) < 10:
            raise ValueError

    app.queue("mails", on_dead=report)
    app.queue("reports", on_dead=other)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    await send.enqueue()
    await send.with_(queue="reports").enqueue()
    await app.worker(queues=["mails", "reports"]).run(burst=True)
    assert calls == ["send", "send"]
    assert len(of(signals.JobDied, heard)) == 4


async def test_a_long_error_is_cut_when_it_does_not_fit() -> None:
    async with App("memory://", max_payload=1000) as app:
        reports = reporting(app)

        @app.task(name="send", queue="mails", retry=RetryPolicy.none())
        async def send() -> None:
            raise ValueError("x" * 5000)

        await send.enqueue()
        await drain(app)
        assert reports[0][4] == "x" * 200


async def test_a_queue_in_parts_reports_its_deaths(app: App) -> None:
    reports = reporting(app, partitions=3)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send(number: int) -> None:
        raise ValueError

    jobs = await app.enqueue_many([send.call(number) for number in range(20)])
    await drain(app)
    assert sorted(id for id, *_ in reports) == sorted(job.id for job in jobs)
    assert {queue for _, _, queue, _, _ in reports} == {"mails"}


async def test_another_worker_relays_what_a_dead_one_left(app: App, store: InterceptedStore) -> None:
    reports = reporting(app)

    @app.task(name="send", queue="mails", retry=RetryPolicy.none())
    async def send() -> None:
        raise ValueError

    await send.enqueue()

    async def stay(*args: object, **options: object) -> None:
        raise BackendUnavailable("the relay cannot append")

    store.intercept("take_outgoing", stay)
    async with app.worker(queues=["mails"]):
        await wait_until(lambda: len(store._store.stream_state(Stream("queue", "mails")).dead) == 1)
    store.restore("take_outgoing")
    assert reports == []
    await drain(app)
    assert len(reports) == 1


async def test_an_unknown_task_is_an_error_when_a_worker_is_made(app: App) -> None:
    app.queue("mails", on_dead="reprot")
    with pytest.raises(ConfigurationError, match="'mails' has on_dead='reprot', and this app has no task"):
        app.worker()


async def test_a_task_that_cannot_be_called_is_an_error_when_a_worker_is_made(app: App) -> None:
    @app.task(name="few")
    async def few(id: str) -> None: ...

    app.queue("mails", on_dead=few)
    with pytest.raises(ConfigurationError, match="def report"):
        app.worker()


async def test_a_task_of_other_types_is_an_error_when_a_worker_is_made(app: App) -> None:
    @app.task(name="numbers")
    async def numbers(id: int, task: str, queue: str, reason: str, error: str) -> None: ...

    app.queue("mails", on_dead=numbers)
    with pytest.raises(ConfigurationError, match="def report"):
        app.worker()
