"""The history of a queue: what is kept of jobs that have ended, and what people see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    App,
    ConfigurationError,
    EncryptedCodec,
    JobStatus,
    ResultNotKept,
    RetryPolicy,
    Secret,
    current_job,
)
from headrace.core.crypto.keys import new_key
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.records.record import moment
from tests.support.waiting import wait_until

DEFAULT = Stream("queue", "default")

MakeApp = Callable[..., App]


@pytest.fixture(params=["memory", "sqlite"])
async def make_app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MakeApp]:
    """Apps on one store."""
    url = "memory://history" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    apps: list[App] = []

    def make(**options: Any) -> App:
        apps.append(App(url, namespace=tmp_path.name, **options))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()


async def test_a_job_without_a_result_is_known_after_its_end(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def send(to: str, copies: int = 1) -> None: ...

    async with app.worker() as worker:
        job = await send.enqueue("a@x.org", copies=2)
        assert await job.wait(timeout=10) is JobStatus.SUCCEEDED
        assert await job.status() is JobStatus.SUCCEEDED
        info = await app.job(job.id).info()
    assert (info.status, info.task, info.queue, info.attempts) == ("succeeded", send.name, "default", 1)
    assert (info.args, info.kwargs, info.worker) == (("a@x.org", 2), {}, worker.id)
    assert info.enqueued_at
    assert info.started_at
    assert info.ended_at
    assert info.enqueued_at <= info.started_at <= info.ended_at
    assert info.waited is not None
    assert info.ran is not None
    assert info.ran == pytest.approx((info.ended_at - info.started_at).total_seconds())
    [run] = info.runs
    assert (run.number, run.worker, run.error) == (1, worker.id, "")
    assert (run.started_at, run.ended_at) == (info.started_at, info.ended_at)
    with pytest.raises(ResultNotKept):
        await app.job(job.id).result(timeout=10)


async def test_every_attempt_is_kept_with_its_error(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(retry=RetryPolicy.fixed(3, 0.001))
    async def flaky(fails: int) -> None:
        job = current_job()
        if job.attempt <= fails:
            raise ValueError(f"attempt {job.attempt}")

    good, bad = await app.enqueue_many([flaky.call(2), flaky.call(9)])
    await app.worker().run(burst=True)
    info = await good.info()
    assert [run.error for run in info.runs] == ["ValueError: attempt 1", "ValueError: attempt 2", ""]
    assert [run.number for run in info.runs] == [1, 2, 3]
    assert all(run.started_at and run.ended_at and run.started_at <= run.ended_at for run in info.runs)
    assert (info.status, info.attempts, info.error) == ("succeeded", 3, "")
    dead = await bad.info()
    assert [run.error for run in dead.runs] == [f"ValueError: attempt {number}" for number in range(1, 5)]
    assert (dead.status, dead.args, dead.reason) == ("dead", (9,), "exhausted")
    assert dead.ran is not None
    assert dead.worker == dead.runs[-1].worker
    ends = [moment(entry.at_us) for entry in dead.trail]  # a run ends before its settlement is written
    assert [run.ended_at for run in dead.runs] == ends
    assert all(run.started_at and run.ended_at and run.started_at <= run.ended_at for run in dead.runs)


async def test_a_kept_result_gets_the_details_of_the_history(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker() as worker:
        job = await add.enqueue(2, 3)
        assert await job.result(timeout=10) == 5
        info = await job.info()
    assert (info.status, info.args, info.worker, len(info.runs)) == ("succeeded", (2, 3), worker.id, 1)
    page = await app.admin.jobs(state="succeeded")
    assert [(each.id, each.args, each.worker) for each in page] == [(job.id, (2, 3), worker.id)]


async def test_ended_jobs_are_listed_by_state_and_task(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(retry=RetryPolicy.none())
    async def odd(number: int) -> None:
        if number % 2:
            raise ValueError(number)

    @app.task
    async def other() -> None: ...

    jobs = await app.enqueue_many([*(odd.call(number) for number in range(6)), other.call()])
    await app.worker().run(burst=True)
    succeeded = await app.admin.jobs(state="succeeded")
    assert {each.id for each in succeeded} == {jobs[index].id for index in (0, 2, 4, 6)}
    assert {each.id for each in await app.admin.jobs(state="succeeded", task=other.name)} == {jobs[6].id}
    assert len(await app.admin.jobs(state="dead")) == 3
    first = await app.admin.jobs(state="succeeded", limit=3)
    second = await app.admin.jobs(state="succeeded", limit=3, cursor=first.cursor)
    assert {each.id for each in (*first, *second)} == {each.id for each in succeeded}
    assert (len(first), len(second), second.cursor) == (3, 1, None)
    assert len(await app.admin.jobs()) == 3, "without a state, a listing has no history"


async def test_a_discarded_dead_letter_leaves_the_history(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(retry=RetryPolicy.none())
    async def fail() -> None:
        raise ValueError("no")

    job = await fail.enqueue()
    await app.worker().run(burst=True)
    assert (await job.info()).error == "no"
    await app.admin.discard(ids=[job.id])
    assert await job.status() is JobStatus.UNKNOWN
    assert len(await app.admin.jobs(state="dead")) == 0


async def test_a_job_that_only_the_history_knows_is_neither_retried_nor_edited(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(name="note")
    async def note() -> None: ...

    job = await note.enqueue()
    await app.worker().run(burst=True)
    assert await app.admin.retry_now(job.id) is False
    assert await app.admin.edit(job.id) is False
    assert await job.cancel() is False


async def test_history_counts_for_no_id_and_no_key(make_app: MakeApp) -> None:
    app = make_app()
    runs: list[str] = []

    @app.task
    async def note() -> None:
        runs.append(current_job().id)

    for _ in range(2):
        job = await note.with_(job_id="fixed", unique_key="key").enqueue()
        assert not job.duplicate
        await app.worker().run(burst=True)
    assert runs == ["fixed", "fixed"]
    assert len(await app.admin.jobs(state="succeeded")) == 1


async def test_a_waiting_job_is_no_history(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def note() -> None: ...

    job = await note.with_(job_id="fixed").enqueue()
    await app.worker().run(burst=True)
    await note.with_(job_id="fixed").enqueue()
    assert await job.status() is JobStatus.QUEUED
    assert len(await app.admin.jobs(state="succeeded")) == 0


async def test_secrets_are_stored_masked(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app()

    @app.task
    async def log_in(user: str, password: Secret[str]) -> None: ...

    job = await log_in.enqueue("ann", Secret("hunter2-plain"))
    await app.worker().run(burst=True)
    assert (await job.info()).args == ("ann", "***")
    [entry] = await app._app_loop.backend.history(DEFAULT)
    assert b"hunter2-plain" not in entry.content


async def test_encrypted_arguments_stay_encrypted(make_app: MakeApp) -> None:
    app = make_app(codec=EncryptedCodec(new_key()))

    @app.task
    async def log_in(user: str, password: Secret[str]) -> None: ...

    plain = await log_in.enqueue("ann-plain", Secret("hunter2-plain"))
    await app.worker().run(burst=True)
    assert (await plain.info()).args == ("ann-plain", "***")
    [entry] = await app._app_loop.backend.history(DEFAULT)
    assert b"hunter2-plain" not in entry.content
    assert b"ann-plain" not in entry.content


async def test_encrypted_arguments_that_may_replace_others_are_kept(make_app: MakeApp) -> None:
    app = make_app(codec=EncryptedCodec(new_key()))

    @app.task(on_duplicate="replace")
    async def log_in(user: str, password: Secret[str]) -> None: ...

    job = await log_in.with_(unique_key="k").enqueue("ann", Secret("hunter2"))
    await app.worker().run(burst=True)
    assert (await job.info()).args == ("ann", "***")


async def test_history_0_keeps_nothing(make_app: MakeApp) -> None:
    app = make_app(history=0)

    @app.task
    async def note() -> None: ...

    job = await note.enqueue()
    await app.worker().run(burst=True)
    assert await job.status() is JobStatus.UNKNOWN
    assert len(await app.admin.jobs(state="succeeded")) == 0


async def test_a_ring_keeps_the_last_jobs(make_app: MakeApp) -> None:
    app = make_app(history=5)

    @app.task
    async def note(number: int) -> None: ...

    for number in range(8):
        await note.enqueue(number)
        await app.worker().run(burst=True)
    assert [info.args for info in await app.admin.jobs(state="succeeded")] == [(n,) for n in (7, 6, 5, 4, 3)]


async def test_a_flood_records_the_failures_and_the_slowest(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(retry=RetryPolicy.none())
    async def work(number: int) -> None:
        if number % 500 == 0:
            raise ValueError(number)
        if number % 500 == 1:
            await asyncio.sleep(0.3)  # slower than nearly all others, also where the machine is busy

    await app.enqueue_many([work.call(number) for number in range(5000)])
    await app.worker().run(burst=True)
    succeeded = [info.args[0] async for info in pages(app, "succeeded")]
    assert len(succeeded) < 2500, "a flood is sampled"
    # All of them and all failures are half of what a second records: a few others may take long, too.
    assert {number for number in range(5000) if number % 500 == 1} <= set(succeeded)
    failed = await app._app_loop.backend.history(DEFAULT, status=JobStatus.DEAD)
    assert len(failed) == 10


async def test_a_flood_in_one_queue_leaves_room_for_a_quiet_one(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def flood() -> None: ...

    @app.task(queue="quiet")
    async def calm() -> None: ...

    await app.enqueue_many([*(flood.call() for _ in range(2000)), calm.call(), calm.call()])
    await app.worker().run(burst=True)
    assert len(await app.admin.jobs("quiet", state="succeeded")) == 2


async def test_all_keeps_every_job(make_app: MakeApp) -> None:
    app = make_app(history="all")

    @app.task
    async def note(number: int) -> None: ...

    await app.enqueue_many([note.call(number) for number in range(1500)])
    await app.worker().run(burst=True)
    assert sorted([info.args[0] async for info in pages(app, "succeeded")]) == list(range(1500))


async def test_large_arguments_are_left_out_of_a_ring(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def store(data: bytes) -> None: ...

    large, small = await app.enqueue_many([store.call(bytes(500_000)), store.call(bytes(100_000))])
    await app.worker().run(burst=True)
    info = await large.info()
    assert (info.status, info.args) == ("succeeded", ())
    assert info.enqueued_at is not None
    contents = await app.admin.contents(large.id)
    assert contents is not None
    assert "too large" in contents.problem
    assert (await small.info()).args == (bytes(100_000),)


async def test_a_message_that_cannot_be_read_is_recorded_too(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(name="note")
    async def note() -> None: ...

    backend = app._app_loop.backend
    await app.open()
    await backend.append(Batch(DEFAULT, "p", 1, [Message("bad", "note", b"\xc1 no message")]))
    await app.worker().run(burst=True)
    [info] = await app.admin.jobs(state="dead")
    assert (info.id, info.reason) == ("bad", "undecodable")
    contents = await app.admin.contents("bad")
    assert contents is not None
    assert "cannot be read" in contents.problem


async def test_a_job_that_was_cancelled_while_it_ran(make_app: MakeApp) -> None:
    app = make_app()
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    async with app.worker():
        job = await long.enqueue()
        await started.wait()
        await job.cancel()
        assert await job.wait(timeout=10) is JobStatus.CANCELLED
        info = await job.info()
    [run] = info.runs
    assert (info.status, run.error) == ("cancelled", "cancelled")


async def test_an_expired_job_has_no_run(make_app: MakeApp) -> None:
    app = make_app(result_ttl=0)

    @app.task(expires=0.001)
    async def note() -> None: ...

    job = await note.enqueue()
    await asyncio.sleep(0.01)  # the store's clock passes the expiry
    await app.worker().run(burst=True)
    [info] = await app.admin.jobs(state="expired")
    assert (info.id, info.runs, info.waited) == (job.id, (), None)
    assert await job.status() is JobStatus.EXPIRED


async def test_a_worker_that_stops_writes_what_it_has_chosen(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def note() -> None: ...

    await app.enqueue_many([note.call() for _ in range(40)])
    async with app.worker() as worker:
        await wait_until(lambda: worker.processed == 40)
    assert len(await app.admin.jobs(state="succeeded")) == 40


@pytest.mark.parametrize("history", [-1, True, "some", 2.5, None])
def test_other_values_are_refused(history: Any) -> None:
    with pytest.raises(ConfigurationError, match="history is how many"):
        App("memory://", history=history)


def test_a_time_to_live_is_a_time() -> None:
    with pytest.raises(ConfigurationError, match="history_ttl"):
        App("memory://", history="all", history_ttl=0)


async def pages(app: App, state: str) -> AsyncIterator[Any]:
    cursor: str | None = None
    while True:
        page = await app.admin.jobs(state=state, cursor=cursor)
        for info in page:
            yield info
        cursor = page.cursor
        if cursor is None:
            return
