"""Middleware: wrapped around every run, in order, free to change, skip or fail it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextvars import ContextVar

import pytest

from headrace import App, JobFailed, JobStatus, RetryPolicy, Run, Snooze, current_job, signals
from headrace.engine.declared.registry import CallNext
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain, of

request_id: ContextVar[str] = ContextVar("request_id", default="none")


async def test_the_first_added_is_the_outermost(app: App) -> None:
    order: list[str] = []

    @app.use
    async def outer(run: Run, call_next: CallNext) -> object:
        order.append("outer in")
        value = await call_next(run)
        order.append("outer out")
        return value

    @app.use
    async def inner(run: Run, call_next: CallNext) -> object:
        order.append("inner in")
        value = await call_next(run)
        order.append("inner out")
        return value

    @app.task(name="see")
    async def see() -> None:
        order.append("handler")

    await see.enqueue()
    await drain(app)
    assert order == ["outer in", "inner in", "handler", "inner out", "outer out"]


async def test_it_wraps_plain_functions_too(app: App) -> None:
    threads: list[bool] = []

    @app.use
    async def watch(run: Run, call_next: CallNext) -> object:
        threads.append(threading.current_thread() is threading.main_thread())
        return await call_next(run)

    @app.task(name="see")
    def see(n: int) -> int:
        threads.append(threading.current_thread() is threading.main_thread())
        return n

    job = await see.enqueue(7)
    await drain(app)
    assert await job.result() == 7
    assert threads == [True, False]


async def test_it_sees_the_run(app: App) -> None:
    seen: list[object] = []

    @app.use
    async def watch(run: Run, call_next: CallNext) -> object:
        seen.append((run.task, run.queue, run.attempt, run.args, run.kwargs, dict(run.headers)))
        assert current_job() is run
        return await call_next(run)

    @app.task(name="see", queue="sights")
    async def see(a: int, *, b: int) -> None: ...

    await see.with_(headers={"source": "web"}).enqueue(1, b=2)
    await drain(app)
    assert seen == [("see", "sights", 1, (1,), {"b": 2}, {"source": "web"})]


async def test_it_may_change_the_value(app: App) -> None:
    @app.use
    async def double(run: Run, call_next: CallNext) -> object:
        value = await call_next(run)
        assert isinstance(value, int)
        return 2 * value

    @app.task(name="see")
    async def see() -> int:
        return 21

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 42


async def test_it_may_answer_without_the_handler(app: App) -> None:
    ran: list[int] = []

    @app.use
    async def skip(run: Run, call_next: CallNext) -> object:
        return 7

    @app.task(name="see")
    async def see() -> int:
        ran.append(1)
        return 1

    @app.task(name="plain")
    def plain() -> int:
        ran.append(1)
        return 1

    jobs = [await see.enqueue(), await plain.enqueue()]
    await drain(app)
    assert [await job.result() for job in jobs] == [7, 7]
    assert ran == []


async def test_what_it_raises_is_the_runs_failure(app: App) -> None:
    @app.use
    async def refuse(run: Run, call_next: CallNext) -> object:
        raise PermissionError("not you")

    @app.task(name="see", retry=RetryPolicy.none())
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="PermissionError: not you"):
        await job.result()


async def test_it_sees_what_the_handler_raises_and_may_handle_it(app: App) -> None:
    @app.use
    async def forgive(run: Run, call_next: CallNext) -> object:
        try:
            return await call_next(run)
        except ValueError as error:
            return f"forgiven: {error}"

    @app.task(name="see", retry=RetryPolicy.none())
    async def see() -> str:
        raise ValueError("no")

    @app.task(name="plain", retry=RetryPolicy.none())
    def plain() -> str:
        raise ValueError("no")

    jobs = [await see.enqueue(), await plain.enqueue()]
    await drain(app)
    assert [await job.result() for job in jobs] == ["forgiven: no"] * 2


async def test_directives_pass_through_it_and_may_come_from_it(app: App) -> None:
    @app.use
    async def later(run: Run, call_next: CallNext) -> object:
        if run.task == "later":
            raise Snooze(60)
        return await call_next(run)

    @app.task(name="see")
    async def see() -> int:
        raise Snooze(60)

    @app.task(name="later")
    async def wait() -> int:
        return 1

    jobs = [await see.enqueue(), await wait.enqueue()]
    await drain(app)
    assert [await job.status() for job in jobs] == [JobStatus.SCHEDULED] * 2


async def test_it_may_run_the_handler_more_than_once(app: App) -> None:
    @app.use
    async def twice(run: Run, call_next: CallNext) -> object:
        await call_next(run)
        return await call_next(run)

    ran: list[int] = []

    @app.task(name="see")
    def see() -> int:
        ran.append(1)
        return len(ran)

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 2


async def test_the_handler_inherits_its_context_variables(app: App) -> None:
    @app.use
    async def note(run: Run, call_next: CallNext) -> object:
        request_id.set(run.headers.get("request", "unknown"))
        return await call_next(run)

    @app.task(name="see")
    async def see() -> str:
        await asyncio.sleep(0)
        return request_id.get()

    @app.task(name="plain")
    def plain() -> str:
        return request_id.get()

    jobs = [await task.with_(headers={"request": "r-7"}).enqueue() for task in (see, plain)]
    await drain(app)
    assert [await job.result() for job in jobs] == ["r-7", "r-7"]
    assert request_id.get() == "none"


async def test_a_plain_function_that_gives_the_next_ones_coroutine_is_middleware(app: App) -> None:
    @app.use
    def pass_on(run: Run, call_next: CallNext) -> Awaitable[object]:
        return call_next(run)

    @app.task(name="see")
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 1


async def test_any_awaitable_will_do(app: App) -> None:
    @app.use
    def elsewhere(run: Run, call_next: CallNext) -> Awaitable[object]:
        return asyncio.ensure_future(call_next(run))

    @app.task(name="see")
    async def see() -> int:
        await asyncio.sleep(0)
        return 1

    job = await see.enqueue()
    await drain(app)
    assert await job.result() == 1


async def test_middleware_that_is_no_coroutine_fails_the_run_with_a_clear_error(app: App) -> None:
    @app.use  # type: ignore[arg-type]
    def broken(run: Run, call_next: CallNext) -> int:
        return 7

    @app.task(name="see", retry=RetryPolicy.none())
    async def see() -> int:
        return 1

    job = await see.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="middleware must be `async def`"):
        await job.result()


async def test_it_cannot_take_a_thread_left_behind_at_shutdown_for_a_success(
    app: App, heard: list[signals.Signal]
) -> None:
    gate, inside = threading.Event(), threading.Event()

    @app.use
    async def forgive(run: Run, call_next: CallNext) -> object:
        try:
            return await call_next(run)
        except Exception:
            return "forgiven"

    @app.task(name="hang")
    def hang() -> str:
        inside.set()
        gate.wait(10)
        return "done"

    job = await hang.enqueue()
    async with app.worker(grace=0):
        await wait_until(inside.is_set)
    gate.set()
    assert await job.status() is JobStatus.QUEUED
    assert of(signals.JobSucceeded, heard) == []


async def test_it_may_clean_up_after_a_thread_left_behind_at_shutdown(app: App) -> None:
    gate, inside, cleaned = threading.Event(), threading.Event(), list[bool]()

    @app.use
    async def clean_up(run: Run, call_next: CallNext) -> object:
        try:
            return await call_next(run)
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cleaned.append(True)

    @app.task(name="hang")
    def hang() -> None:
        inside.set()
        gate.wait(10)

    await hang.enqueue()
    async with app.worker(grace=0):
        await wait_until(inside.is_set)
    gate.set()
    assert cleaned == [True]
