"""drain(): runs what there is, without waiting for any of it."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from headrace import (
    App,
    ConfigurationError,
    JobFailed,
    JobStatus,
    RetryPolicy,
    Snooze,
    Unrecoverable,
    current_job,
)
from headrace.core.messages.message import ENVELOPE_VERSION, Batch, Envelope, Message, Stream, encode_envelope
from headrace.testing import Kit, memory


async def test_with_nothing_to_do_it_returns(kit: Kit) -> None:
    await kit.drain()
    await kit.drain(scheduled=True, raise_errors=True)


async def test_it_runs_what_jobs_enqueue_in_their_turn_in_any_queue(app: App, kit: Kit) -> None:
    ran: list[int] = []

    @app.task(name="count_down")
    async def count_down(n: int) -> None:
        ran.append(n)
        if n:
            await count_down.with_(queue=f"queue-{n}").enqueue(n - 1)

    await count_down.enqueue(3)
    await kit.drain()
    assert ran == [3, 2, 1, 0]


async def test_it_runs_plain_functions_in_threads(app: App, kit: Kit) -> None:
    @app.task(name="where")
    def where() -> str:
        return threading.current_thread().name

    job = await where.enqueue()
    await kit.drain()
    assert "headrace thread" in await job.result()


async def test_retries_need_no_waiting_the_clock_is_moved(app: App, kit: Kit) -> None:
    @app.task(name="flaky", retry=RetryPolicy.exponential(3, base=3600, cap=86400, jitter=False))
    async def flaky() -> int:
        if current_job().attempt < 4:
            raise ValueError("not yet")
        return current_job().attempt

    job = await flaky.enqueue()
    began = time.monotonic()
    await kit.drain()
    assert time.monotonic() - began < 5
    assert await job.result() == 4
    assert 7 * 3600 - 10 < kit.clock.offset_us / 1e6 <= 7 * 3600


async def test_retries_may_be_left_waiting(app: App, kit: Kit) -> None:
    @app.task(name="flaky", retry=RetryPolicy.fixed(1, 3600))
    async def flaky() -> None:
        raise ValueError("no")

    job = await flaky.enqueue()
    await kit.drain(retries=False)
    assert await job.status() is JobStatus.RETRYING
    assert kit.clock.offset_us == 0
    kit.clock.advance(3600)
    await kit.drain(retries=False)
    assert await job.status() is JobStatus.DEAD


async def test_what_is_scheduled_is_left_alone_unless_it_is_asked_for(app: App, kit: Kit) -> None:
    ran: list[str] = []

    @app.task(name="work")
    async def work(what: str) -> None:
        ran.append(what)

    await work.with_(delay=7200).enqueue("second")
    await work.with_(delay=3600).enqueue("first")
    await work.enqueue("now")
    await kit.drain()
    assert ran == ["now"]
    await kit.drain(scheduled=True)
    assert ran == ["now", "first", "second"]
    assert 7100 < kit.clock.offset_us / 1e6 <= 7200


async def test_what_was_due_by_a_retry_runs_with_it(app: App, kit: Kit) -> None:
    ran: list[str] = []

    @app.task(name="work")
    async def work() -> None:
        ran.append("scheduled")

    @app.task(name="flaky", retry=RetryPolicy.fixed(1, 3600))
    async def flaky() -> None:
        ran.append("flaky")
        raise ValueError("no")

    await work.with_(delay=60).enqueue()
    await flaky.enqueue()
    await kit.drain()
    assert sorted(ran) == ["flaky", "flaky", "scheduled"]


async def test_a_job_that_snoozes_is_scheduled(app: App, kit: Kit) -> None:
    ran: list[int] = []

    @app.task(name="work")
    async def work() -> None:
        ran.append(1)
        if len(ran) < 3:
            raise Snooze(3600)

    job = await work.enqueue()
    await kit.drain()
    assert (await job.status(), len(ran)) == (JobStatus.SCHEDULED, 1)
    await kit.drain(scheduled=True)
    assert len(ran) == 3


async def test_some_queues_only(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    first = await work.with_(queue="one").enqueue()
    other = await work.with_(queue="other").enqueue()
    await kit.drain(queues=["one", "none"])
    assert [job.status for job in kit.enqueued()] == [JobStatus.SUCCEEDED, JobStatus.QUEUED]
    assert await first.status() is JobStatus.SUCCEEDED
    assert await other.status() is JobStatus.QUEUED
    with pytest.raises(ConfigurationError, match="queues must be a list"):
        await kit.drain(queues="one")


async def test_a_paused_queue_is_not_waited_for(app: App, kit: Kit) -> None:
    @app.task(name="work", retry=RetryPolicy.fixed(1, 60))
    async def work() -> None:
        raise ValueError("no")

    job = await work.enqueue()
    await kit.drain(retries=False)
    await app.admin.pause("default")
    await work.enqueue()
    await kit.drain(scheduled=True)
    assert await job.status() is JobStatus.RETRYING
    await app.admin.resume("default")
    await kit.drain()
    assert await job.status() is JobStatus.DEAD


async def test_one_after_the_other(app: App, kit: Kit) -> None:
    trace: list[str] = []

    @app.task(name="work")
    async def work(n: int) -> None:
        trace.append(f"{n} begins")
        await asyncio.sleep(0)
        trace.append(f"{n} ends")

    await app.enqueue_many([work.call(1), work.call(2)])
    await kit.drain(concurrency=1)
    assert trace == ["1 begins", "1 ends", "2 begins", "2 ends"]


async def test_a_job_may_wait_for_another(app: App, kit: Kit) -> None:
    @app.task(name="child", queue="children")
    async def child() -> int:
        return 1

    @app.task(name="parent")
    async def parent() -> int:
        return await (await child.enqueue()).result() + 1

    job = await parent.enqueue()
    await kit.drain()
    assert await job.result() == 2


async def test_beside_a_worker_that_runs_already(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> int:
        return 1

    async with app.worker():
        job = await work.with_(delay=60).enqueue()
        await kit.drain(scheduled=True)
        assert await job.result() == 1


# --- what does not end ---------------------------------------------------------------------------------


async def test_a_job_that_does_not_end_is_named(app: App, kit: Kit) -> None:
    cancelled: list[str] = []

    @app.task(name="endless")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(current_job().id)
            raise

    job = await endless.enqueue()
    with pytest.raises(TimeoutError, match=rf"0 are queued, running are: endless \({job.id}\)"):
        await kit.drain(timeout=0.01)
    assert cancelled == [job.id]


async def test_so_are_jobs_that_go_on_and_on(app: App, kit: Kit) -> None:
    @app.task(name="again")
    async def again() -> None:
        await again.with_(delay=60).enqueue()

    await again.enqueue()
    await kit.drain()
    assert len(kit.enqueued()) == 2
    with pytest.raises(TimeoutError, match="or enqueue itself again and again"):
        await kit.drain(scheduled=True, timeout=0.05)


async def test_it_may_take_as_long_as_it_likes(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> None:
        await asyncio.sleep(0.01)

    await work.enqueue()
    await kit.drain(timeout=None)
    assert [job.status for job in kit.enqueued()] == [JobStatus.SUCCEEDED]


async def test_a_drain_that_is_cancelled_lets_go_at_once(app: App, kit: Kit) -> None:
    started = asyncio.Event()

    @app.task(name="endless")
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await endless.enqueue()
    draining = asyncio.create_task(kit.drain())
    await started.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert await job.status() is JobStatus.QUEUED


# --- errors --------------------------------------------------------------------------------------------


class PaymentDeclined(Exception):
    pass


async def test_a_job_that_dies_is_silent_by_default(app: App, kit: Kit) -> None:
    @app.task(name="pay")
    async def pay() -> None:
        raise PaymentDeclined("no funds")

    job = await pay.enqueue()
    await kit.drain()
    assert await job.status() is JobStatus.DEAD


async def test_its_error_is_raised_when_that_is_wanted(app: App, kit: Kit) -> None:
    runs: list[int] = []

    @app.task(name="pay", retry=RetryPolicy.fixed(2, 60))
    async def pay() -> None:
        runs.append(1)
        raise PaymentDeclined("no funds")

    job = await pay.enqueue()
    with pytest.raises(PaymentDeclined, match="no funds") as raised:
        await kit.drain(raise_errors=True)
    assert len(runs) == 3
    assert raised.value.__notes__ == [f"This is how job {job.id} of pay died (exhausted)."]
    assert raised.traceback[-1].name == "pay"
    assert not any("executor.py" in str(entry.path) for entry in raised.traceback)


async def test_a_plain_functions_error_too(app: App, kit: Kit) -> None:
    @app.task(name="pay", retry=RetryPolicy.none())
    def pay() -> None:
        raise PaymentDeclined("no funds")

    await pay.enqueue()
    with pytest.raises(PaymentDeclined) as raised:
        await kit.drain(raise_errors=True)
    assert raised.traceback[-1].name == "pay"


async def test_the_first_of_several_names_the_others(app: App, kit: Kit) -> None:
    @app.task(name="pay", retry=RetryPolicy.none())
    async def pay(n: int) -> None:
        raise PaymentDeclined(str(n))

    first, second = await app.enqueue_many([pay.call(1), pay.call(2)])
    with pytest.raises(PaymentDeclined, match="1") as raised:
        await kit.drain(raise_errors=True, concurrency=1)
    assert raised.value.__notes__[1] == f"After it died: job {second.id} of pay."
    assert await first.status() is await second.status() is JobStatus.DEAD
    await kit.drain(raise_errors=True)  # nothing died this time


async def test_a_failure_that_a_retry_mended_is_none(app: App, kit: Kit) -> None:
    @app.task(name="flaky", retry=RetryPolicy.fixed(1, 60))
    async def flaky() -> None:
        if current_job().attempt == 1:
            raise PaymentDeclined("try again")

    await flaky.enqueue()
    await kit.drain(raise_errors=True)


async def test_a_timeout_has_no_error_of_its_own(app: App, kit: Kit) -> None:
    @app.task(name="slow", timeout=0.01, retry=lambda failures, error: 0 if failures == 1 else None)
    async def slow() -> None:
        if current_job().attempt == 1:
            raise PaymentDeclined("an earlier error is not the one it died of")
        await asyncio.Event().wait()

    job = await slow.enqueue()
    with pytest.raises(
        JobFailed, match=f"job {job.id} of slow is dead: TimeoutError: slow did not end"
    ) as it:
        await kit.drain(raise_errors=True)
    assert it.value.error_type == "TimeoutError"
    assert it.value.traceback in str(it.value)


async def test_neither_has_a_message_that_never_came_to_its_handler(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work(n: int) -> None: ...

    body = encode_envelope(Envelope(ENVELOPE_VERSION, "bad", "work", 0, None, None, b"\x91\x91\xa1x"))
    batch = Batch(Stream("queue", "default"), "elsewhere", 1, [Message("bad", "work", body)])
    await kit._store.append(batch)
    with pytest.raises(JobFailed, match="job bad of work is dead: invalid: the arguments do not fit"):
        await kit.drain(raise_errors=True)


async def test_not_even_pytests_own_are_lost(app: App, kit: Kit) -> None:
    @app.task(name="work", retry=RetryPolicy.none())
    async def work() -> None:
        pytest.fail("from inside a job")

    await work.enqueue()
    with pytest.raises(pytest.fail.Exception, match="from inside a job"):
        await kit.drain(raise_errors=True)


async def test_unrecoverable_is_raised_as_it_is(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> None:
        raise Unrecoverable("no such order")

    await work.enqueue()
    with pytest.raises(Unrecoverable, match="no such order"):
        await kit.drain(raise_errors=True)


# --- plain tests ---------------------------------------------------------------------------------------


def test_plain_tests_drain_with_the_same_options(app: App, kit: Kit) -> None:
    @app.task(name="work", retry=RetryPolicy.fixed(1, 3600))
    def work(n: int) -> int:
        if n == 0:
            raise PaymentDeclined("no funds")
        return n

    job = app.sync.enqueue(work.with_(delay=60).call(1))
    kit.sync.drain()
    assert app.sync.status(job) is JobStatus.SCHEDULED
    kit.clock.advance(60)
    kit.sync.drain()
    assert app.sync.result(job) == 1
    app.sync.enqueue(work.call(0))
    with pytest.raises(PaymentDeclined) as raised:
        kit.sync.drain(raise_errors=True)
    assert raised.traceback[-1].name == "work"


# --- processes -----------------------------------------------------------------------------------------

processes = App("memory://")


@processes.task(name="where", run_in="process")
def where() -> int:
    return os.getpid()


@processes.task(name="where_async", run_in="process")
async def where_async() -> int:
    return os.getpid()


async def test_what_would_run_in_a_process_of_its_own_runs_within_reach_of_the_test() -> None:
    with memory(processes) as kit:
        jobs = [await where.enqueue(), await where_async.enqueue()]
        await kit.drain()
        assert [await job.result() for job in jobs] == [os.getpid()] * 2
