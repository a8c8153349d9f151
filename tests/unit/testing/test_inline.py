"""run_inline(): a job is over when `enqueue` returns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from headrace import App, JobFailed, JobStatus, ResultNotKept, RetryPolicy, Snooze, current_job
from headrace.core.messages.sending import Sending
from headrace.testing import Kit, memory, run_inline
from headrace.testing.caller import Caller, caller
from tests.support.waiting import wait_until


async def test_enqueue_runs_the_job_and_returns_it_finished(app: App) -> None:
    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        assert current_job().task == "add"
        return a + b

    with run_inline(app) as kit:
        job = await add.enqueue(2, 3)
        assert await job.status() is JobStatus.SUCCEEDED
        assert await job.result() == 5
        assert await (await app.enqueue(add.call(1, 1))).result() == 2
        kit.assert_enqueued(add, count=2)
    assert app.description == "memory (private)"


async def test_enqueue_many_runs_them_in_order(app: App) -> None:
    ran: list[int] = []

    @app.task(name="work")
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        ran.append(n)
        return n

    with run_inline(app):
        jobs = await app.enqueue_many([work.call(n).with_(queue=f"queue-{n % 2}") for n in range(20)])
        assert [await job.result() for job in jobs] == list(range(20))
        assert sorted(ran) == list(range(20))
        assert [n for n in ran if n % 2] == [n for n in range(20) if n % 2]
        assert await app.enqueue_many([]) == []


async def test_its_error_is_raised_by_enqueue(app: App) -> None:
    runs: list[int] = []

    @app.task(name="pay", retry=RetryPolicy.fixed(2, 3600))
    async def pay() -> None:
        runs.append(current_job().attempt)
        raise ZeroDivisionError("no funds")

    with run_inline(app) as kit:
        with pytest.raises(ZeroDivisionError, match="no funds") as raised:
            await pay.enqueue()
        assert runs == [1, 2, 3]
        assert kit.clock.offset_us == 0
        assert raised.traceback[-1].name == "pay"


async def test_or_by_the_result_alone(app: App) -> None:
    @app.task(name="pay", retry=RetryPolicy.none())
    async def pay() -> int:
        raise ZeroDivisionError("no funds")

    with run_inline(app, raise_errors=False):
        job = await pay.enqueue()
        with pytest.raises(JobFailed, match="ZeroDivisionError: no funds"):
            await job.result()


async def test_nothing_is_kept_that_would_not_be_kept_elsewhere(app: App) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    with run_inline(app):
        job = await work.enqueue()
        with pytest.raises(ResultNotKept):
            await job.result()


async def test_a_delay_is_left_out(app: App) -> None:
    @app.task(name="work")
    async def work() -> int:
        return 1

    with run_inline(app) as kit:
        assert await (await work.with_(delay=3600).enqueue()).result() == 1
        assert kit.clock.offset_us == 0
        assert kit.enqueued()[0].due_at is not None


async def test_a_job_that_snoozes_is_left_for_later(app: App) -> None:
    ran: list[int] = []

    @app.task(name="work")
    async def work() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise Snooze(60)

    with run_inline(app) as kit:
        job = await work.enqueue()
        assert (await job.status(), len(ran)) == (JobStatus.SCHEDULED, 1)
        await kit.drain(scheduled=True)
        assert len(ran) == 2


async def test_a_paused_queue_is_not_run(app: App) -> None:
    @app.task(name="work")
    async def work() -> int:
        return 1

    with run_inline(app):
        await app.admin.pause("default")
        job = await work.enqueue()
        assert await job.status() is JobStatus.QUEUED
        await app.admin.resume("default")
        await work.enqueue()
        assert await job.result() == 1


async def test_jobs_run_inside_the_jobs_that_enqueue_them(app: App) -> None:
    trace: list[str] = []

    @app.task(name="child")
    async def child(n: int) -> int:
        trace.append(f"child {n}")
        return await (await child.enqueue(n - 1)).result() + 1 if n else 0

    @app.task(name="parent")
    async def parent() -> int:
        trace.append("parent begins")
        job = await child.enqueue(3)
        trace.append("parent ends")
        return await job.result()

    with run_inline(app):
        assert await (await parent.enqueue()).result() == 3
    assert trace == ["parent begins", "child 3", "child 2", "child 1", "child 0", "parent ends"]


async def test_an_error_goes_through_all_of_them(app: App) -> None:
    @app.task(name="child", retry=RetryPolicy.none())
    async def child() -> None:
        raise ZeroDivisionError("no funds")

    @app.task(name="parent", retry=RetryPolicy.none())
    async def parent() -> None:
        await child.enqueue()

    with run_inline(app), pytest.raises(ZeroDivisionError) as raised:
        await parent.enqueue()
    assert [note.split(" of ")[1] for note in raised.value.__notes__] == [
        "child died (exhausted).",
        "parent died (exhausted).",
    ]


async def test_a_duplicate_is_the_job_that_stands_there(app: App) -> None:
    @app.task(name="work", unique=True)
    async def work(again: bool) -> bool:
        return (await work.enqueue(again)).duplicate if again else False

    with run_inline(app):
        assert await (await work.enqueue(True)).result() is True


async def test_several_at_once(app: App) -> None:
    running = most = 0

    @app.task(name="work")
    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return n

    with run_inline(app) as kit:
        jobs = await asyncio.gather(*(work.enqueue(n) for n in range(10)))
        assert [await job.result() for job in jobs] == list(range(10))
        assert most > 1
        assert [await app.job(job.id).info() for job in kit.enqueued() if job.status != "succeeded"] == []


async def test_the_outer_kit_is_used(app: App, kit: Kit) -> None:
    @app.task(name="work")
    async def work() -> int:
        return 1

    waiting = await work.with_(queue="other").enqueue()
    with run_inline(app) as inner:
        assert inner is kit
        await work.enqueue()
    await work.enqueue()
    assert [job.status for job in kit.enqueued()] == ["queued", "succeeded", "queued"]
    assert await waiting.status() is JobStatus.QUEUED


async def test_what_the_caller_has_in_its_context_is_seen(app: App) -> None:
    tenant: ContextVar[str] = ContextVar("tenant")

    @app.task(name="work")
    async def work() -> str:
        return tenant.get()

    tenant.set("acme")
    with run_inline(app):
        assert await (await work.enqueue()).result() == "acme"


async def test_a_caller_that_is_cancelled_takes_the_job_with_it(app: App) -> None:
    cancelled: list[int] = []

    @app.task(name="endless")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    with run_inline(app) as kit:
        enqueuing = asyncio.create_task(endless.enqueue())
        await wait_until(lambda: [job for job in kit.enqueued() if job.status == "running"])
        enqueuing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await enqueuing
        assert cancelled == [1]


# --- which thread --------------------------------------------------------------------------------------


async def test_a_plain_function_that_async_code_enqueues_runs_in_a_thread_as_ever(app: App) -> None:
    @app.task(name="where")
    def where() -> str:
        asyncio.run(asyncio.sleep(0))  # which is refused where a loop is running
        return threading.current_thread().name

    with run_inline(app):
        assert "headrace thread" in await (await where.enqueue()).result()


def test_a_plain_function_that_plain_code_enqueues_runs_in_its_thread(app: App) -> None:
    local = threading.local()
    local.connection = "the test's"

    @app.task(name="where")
    def where() -> str:
        asyncio.run(asyncio.sleep(0))
        assert current_job().task == "where"
        return str(getattr(local, "connection", "another"))

    with run_inline(app):
        assert app.sync.result(app.sync.enqueue(where.call())) == "the test's"
        jobs = app.sync.enqueue_many([where.call(), where.call()])
        assert [app.sync.result(job) for job in jobs] == ["the test's"] * 2


def test_so_does_one_that_such_a_job_enqueues(app: App) -> None:
    names: list[str] = []

    @app.task(name="leaf")
    def leaf() -> None:
        names.append(threading.current_thread().name)

    @app.task(name="middle")
    async def middle() -> None:
        names.append(threading.current_thread().name)
        await leaf.enqueue()

    @app.task(name="root")
    def root() -> None:
        names.append(threading.current_thread().name)
        app.sync.enqueue(middle.call())
        app.sync.enqueue(leaf.call())

    with run_inline(app):
        app.sync.enqueue(root.call())
    main = threading.current_thread().name
    assert names == [main, "headrace loop", main, main]


def test_errors_come_back_to_plain_code(app: App) -> None:
    @app.task(name="pay", retry=RetryPolicy.fixed(1, 60))
    def pay() -> None:
        raise ZeroDivisionError("no funds")

    with run_inline(app), pytest.raises(ZeroDivisionError) as raised:
        app.sync.enqueue(pay.call())
    assert raised.traceback[-1].name == "pay"


async def test_plain_code_that_is_called_on_a_loop_does_not_wait_for_itself(app: App) -> None:
    @app.task(name="work")
    def work() -> int:
        return 1

    with run_inline(app):
        job = app.sync.enqueue(work.call())
        [other] = app.sync.enqueue_many([work.call()])
        assert await job.result() + await other.result() == 2


def test_an_interrupt_of_the_test_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def submit() -> Future[None]:
        return threads.submit(caller.get().run_here(interrupted))

    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
        Caller().wait_for(submit)


def test_afterwards_enqueue_is_what_it_was(app: App) -> None:
    @app.task(name="work")
    def work() -> int:
        return 1

    with memory(app) as kit:
        with run_inline(app):
            pass
        assert app.sync.status(app.sync.enqueue(work.call())) is JobStatus.QUEUED
        kit.sync.drain()


async def test_a_sending_wrapper_that_is_added_meanwhile_stays(app: App) -> None:
    sent: list[int] = []

    @contextmanager
    def wrapper(sending: Sending) -> Iterator[None]:
        sent.append(sending.count)
        yield

    @app.task(name="work")
    async def work() -> int:
        return 1

    with memory(app):
        with run_inline(app):
            app.use_sending(wrapper)
            assert await (await work.enqueue()).status() is JobStatus.SUCCEEDED
        job, _ = await app.enqueue_many([work.call(), work.call()])
        assert await job.status() is JobStatus.QUEUED
    assert sent == [1, 2]
