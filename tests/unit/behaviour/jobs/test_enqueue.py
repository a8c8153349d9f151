"""Enqueueing: one, many, from a call, and not at all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headrace import App, BackendUnavailable, InvalidPayload, Job, JobStatus, QueueFull, signals
from headrace.core.messages.message import Batch
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import SystemClock
from headrace.stores.memory.shared_state import SharedState
from headrace.stores.memory.store import MemoryStore
from tests.support.intercepted_store import InterceptedStore
from tests.unit.behaviour.work import drain, of, until


async def test_a_coroutine_functions_job_runs_on_the_event_loop(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        assert threading.current_thread() is threading.main_thread()
        return a + b

    job = await add.enqueue(2, 3)
    async with app.worker():
        assert await job.result(timeout=10) == 5


async def test_a_plain_functions_job_runs_in_a_thread(app: App) -> None:
    @app.task(name="add")
    def add(a: int, b: int) -> tuple[int, bool]:
        return a + b, threading.current_thread() is threading.main_thread()

    async with app.worker():
        job = await add.enqueue(2, 3)
        assert await job.result(timeout=10) == (5, False)


async def test_a_job_knows_its_id_task_and_queue(app: App) -> None:
    @app.task(name="add", queue="sums")
    async def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(2, 3)
    assert (len(job.id), job.task, job.queue, job.duplicate) == (26, "add", "sums", False)
    assert repr(job) == f"<Job {job.id} of add>"


async def test_calls_are_values(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: list[int]) -> int:
        return a + sum(b)

    call, remote = add.call(2, b=[5]), app.remote("elsewhere")
    assert call == add.call(2, b=[5])
    assert call not in (add.call(3, b=[5]), call.with_(priority="high"))
    assert {call, add.call(2, b=[5])} == {call}
    assert remote.call(1) == remote.call(1)
    assert {remote.call(a=1, b=2), remote.call(b=2, a=1)} == {remote.call(a=1, b=2)}


async def test_a_call_can_be_kept_and_enqueued_later(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: int = 10) -> int:
        return a + b

    call = add.call(2, b=5)
    first, second = await app.enqueue(call), await app.enqueue(call.with_(priority="high"))
    assert first.id != second.id
    await drain(app)
    assert [await first.result(), await second.result()] == [7, 7]


async def test_with_gives_options_to_the_next_calls(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    job = await add.with_(queue="other", job_id="sum-1").enqueue(2, 3)
    assert (job.queue, job.id) == ("other", "sum-1")


async def test_calling_a_task_runs_it_here_and_now(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="subtract")
    def subtract(a: int, b: int) -> int:
        return a - b

    assert await add(2, 3) == 5
    assert subtract(5, 3) == 2
    assert await app.admin.queues() == []


async def test_ten_thousand_jobs_are_stored_in_a_handful_of_writes(app: App, store: InterceptedStore) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    @app.task(name="negate", queue="other")
    async def negate(n: int) -> int:
        return -n

    writes: list[int] = []
    append = store.append

    async def counted(batch: Batch) -> list[Answer]:
        writes.append(len(batch.messages))
        return await append(batch)

    store.intercept("append", counted)
    calls = [double.call(n) if n % 2 else negate.call(n) for n in range(10_000)]
    jobs = await app.enqueue_many(calls)
    assert len(writes) == 20
    assert [job.task for job in jobs[:4]] == ["negate", "double", "negate", "double"]
    await drain(app, concurrency=100)
    assert [await job.result() for job in jobs[:4]] == [0, 2, -2, 6]
    assert await jobs[9_999].result() == 2 * 9_999


async def test_enqueueing_no_jobs_is_no_error(app: App) -> None:
    assert await app.enqueue_many([]) == []


async def test_one_wrong_call_of_many_and_nothing_is_stored(app: App) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    calls = [double.call(1), double.call(object())]  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="object"):
        await app.enqueue_many(calls)
    assert await app.admin.queues() == []


async def test_an_argument_that_cannot_be_sent_is_refused_at_once(app: App) -> None:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    with pytest.raises(InvalidPayload, match="cannot be sent"):
        await double.enqueue(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="missing a required argument"):
        await double.enqueue()  # type: ignore[call-arg]


async def test_many_enqueues_at_once_all_arrive(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> None:
        seen.append(n)

    jobs = await asyncio.gather(*(see.enqueue(n) for n in range(500)))
    assert len({job.id for job in jobs}) == 500
    await drain(app)
    assert sorted(seen) == list(range(500))


async def test_jobs_of_one_priority_are_started_in_the_order_they_came(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> None:
        seen.append(n)

    await app.enqueue_many([see.call(n) for n in range(100)])
    await drain(app, concurrency=1)
    assert seen == list(range(100))


async def test_what_is_enqueued_is_announced(app: App, heard: list[signals.Signal]) -> None:
    @app.task(name="see", queue="sights")
    async def see(n: int) -> None: ...

    first = await see.with_(job_id="a").enqueue(1)
    await see.with_(job_id="a").enqueue(1)
    (third,) = await app.enqueue_many([see.call(3)])
    assert of(signals.JobEnqueued, heard) == [
        signals.JobEnqueued(first.id, "see", "sights"),
        signals.JobEnqueued(first.id, "see", "sights", duplicate=True),
        signals.JobEnqueued(third.id, "see", "sights"),
    ]


async def test_the_same_job_id_twice_is_answered_with_the_job_that_stands_there(app: App) -> None:
    seen: list[int] = []

    @app.task(name="see")
    async def see(n: int) -> int:
        seen.append(n)
        return n

    first = await see.with_(job_id="sight-1").enqueue(1)
    second = await see.with_(job_id="sight-1").enqueue(2)
    assert (first.duplicate, second.duplicate) == (False, True)
    await drain(app)
    assert seen == [1]
    assert await second.result() == 1
    third = await see.with_(job_id="sight-1").enqueue(3)
    assert third.duplicate


# --- limits --------------------------------------------------------------------------------------------


async def test_a_full_queue_refuses_and_takes_again_when_it_was_worked_off() -> None:
    async with App("memory://", queue_limit=2) as app:

        @app.task(name="see")
        async def see(n: int) -> int:
            return n

        await see.enqueue(1)
        await see.with_(delay=60).enqueue(2)
        with pytest.raises(QueueFull, match="queue 'default' holds its limit of 2 jobs") as refused:
            await see.enqueue(3)
        assert refused.value.accepted == []
        await drain(app)
        await see.enqueue(4)


async def test_a_batch_that_does_not_fit_says_what_was_taken() -> None:
    async with App("memory://", queue_limit=3) as app:

        @app.task(name="see")
        async def see(n: int) -> int:
            return n

        @app.task(name="hear", queue="sounds")
        async def hear(n: int) -> int:
            return n

        calls = [see.call(n) for n in range(5)]
        calls.insert(4, hear.call(7))
        with pytest.raises(QueueFull) as refused:
            await app.enqueue_many(calls)
        accepted: list[Job[int]] = refused.value.accepted
        assert [job.task for job in accepted] == ["see", "see", "see", "hear"]
        await drain(app)
        assert [await job.result() for job in accepted] == [0, 1, 2, 7]


async def test_retries_do_not_count_against_the_limit_and_are_never_refused() -> None:
    async with App("memory://", queue_limit=1) as app:

        @app.task(name="fail", retry=lambda failures, error: 60)
        async def fail() -> None:
            raise ValueError("no")

        job = await fail.enqueue()
        async with app.worker():
            await until(job, JobStatus.RETRYING)
        await fail.enqueue()


class Choosy(MemoryStore):
    """Takes no jobs of the queue `mails`."""

    async def append(self, batch: Batch) -> list[Answer]:
        if batch.stream.name == "mails":
            raise BackendUnavailable("not now")
        return await super().append(batch)


def two_tasks(app: App) -> tuple[Any, Any]:
    @app.task(name="mail", queue="mails")
    async def mail() -> None: ...

    @app.task(name="report", queue="reports")
    async def report() -> None: ...

    return mail, report


async def test_many_jobs_of_which_one_queue_refuses_its_share_are_uncertain() -> None:
    async with App(store=Choosy(SharedState(), name="", clock=SystemClock())) as app:
        mail, report = two_tasks(app)
        with pytest.raises(BackendUnavailable) as raised:
            await app.enqueue_many([mail.call(), report.call()])
        assert raised.value.uncertain
        with pytest.raises(BackendUnavailable) as raised:
            await app.enqueue_many([mail.call(), mail.call()])
        assert not raised.value.uncertain
