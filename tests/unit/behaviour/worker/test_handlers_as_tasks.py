"""Handlers share a slot's task, and behave as they would in a task of their own.

After whatever a handler did to its task, the next job in the same slot finds it clean: all tests run with one
slot, and end with a probe. They run on asyncio's own loop and on uvloop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from headrace import App, Job, JobFailed, JobStatus, RetryPolicy, current_job
from tests.support.servers import missing
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain

word: ContextVar[str] = ContextVar("word", default="nothing")


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param == "uvloop" and importlib.util.find_spec("uvloop") is None:
        missing("uvloop is not installed")  # it is an extra, and there is none for Windows
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Slot:
    """One app with one slot, in which handlers follow each other."""

    def __init__(self, app: App) -> None:
        self.app = app

        @app.task(name="probe")
        async def probe() -> list[object]:
            task = asyncio.current_task()
            assert task is not None
            for _ in range(3):
                await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await asyncio.sleep(0)
            return [task.cancelling(), word.get(), current_job().task]

        self._probe = probe

    async def run(self, handler: Callable[..., Any], *, timeout: float | None = None) -> Job[Any]:
        """Run a handler, then the probe, which must find everything clean."""
        job = await self._enqueue(handler, timeout)
        probe = await self._probe.enqueue()
        await drain(self.app, concurrency=1)
        assert await probe.result() == [0, "nothing", "probe"]
        return job

    async def value(self, handler: Callable[..., Any], *, timeout: float | None = None) -> Any:
        return await (await self.run(handler, timeout=timeout)).result()

    async def failure(self, handler: Callable[..., Any], *, timeout: float | None = None) -> JobFailed:
        with pytest.raises(JobFailed) as failed:
            await self.value(handler, timeout=timeout)
        return failed.value

    async def cancelled(self, handler: Callable[..., Any], inside: asyncio.Event) -> JobStatus:
        """Run a handler, cancel its job once it is inside, then probe; the job's end."""
        job = await self._enqueue(handler, None)
        async with self.app.worker(concurrency=1):
            await inside.wait()
            await job.cancel()
            status = await job.wait(timeout=10)
            probe = await self._probe.enqueue()
            assert await probe.result(timeout=10) == [0, "nothing", "probe"]
        return status

    async def _enqueue(self, handler: Callable[..., Any], timeout: float | None) -> Job[Any]:
        task = self.app.task(name="handler", retry=RetryPolicy.none(), result_ttl=60)(handler)
        call = task.call().with_(timeout=timeout)
        return await self.app.enqueue(call)


@pytest.fixture
def slot(app: App) -> Slot:
    return Slot(app)


SHORT = 0.01

# --- suspending or not ---------------------------------------------------------------------------------


async def test_a_handler_that_never_suspends(slot: Slot) -> None:
    async def handler() -> int:
        return 1

    assert await slot.value(handler) == 1


async def test_a_handler_that_suspends_often_and_differently(slot: Slot) -> None:
    async def handler() -> list[object]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        done.set_result("done")
        later: asyncio.Future[str] = loop.create_future()
        loop.call_soon(later.set_result, "later")
        queue: asyncio.Queue[str] = asyncio.Queue()
        loop.call_soon(queue.put_nowait, "queued")
        async with asyncio.Lock():
            await asyncio.sleep(0)
        return [
            await done,
            await later,
            await queue.get(),
            await asyncio.shield(asyncio.sleep(0, "shielded")),
        ]

    assert await slot.value(handler) == ["done", "later", "queued", "shielded"]


async def test_the_current_task_is_the_same_all_through_a_job(slot: Slot) -> None:
    async def handler() -> bool:
        tasks = [asyncio.current_task()]
        ids = [anyio.get_current_task().id]
        for _ in range(3):
            await asyncio.sleep(0)
            tasks.append(asyncio.current_task())
            ids.append(anyio.get_current_task().id)
        return None not in tasks and len(set(tasks)) == len(set(ids)) == 1

    assert await slot.value(handler)


async def test_a_handler_awaits_other_jobs(slot: Slot) -> None:
    @slot.app.task(name="inner")
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def handler() -> int:
        return await inner(21)

    assert await slot.value(handler) == 42


# --- timeouts of its own -------------------------------------------------------------------------------


async def test_a_timeout_that_does_not_expire(slot: Slot) -> None:
    async def handler() -> bool:
        async with asyncio.timeout(10) as scope:
            await asyncio.sleep(0)
        return scope.expired()

    assert await slot.value(handler) is False


async def test_a_timeout_that_expires(slot: Slot) -> None:
    async def handler() -> str:
        try:
            async with asyncio.timeout(SHORT):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
            return "expired"
        return "not expired"

    assert await slot.value(handler) == "expired"


async def test_a_timeout_that_expires_and_is_not_caught(slot: Slot) -> None:
    async def handler() -> None:
        async with asyncio.timeout(SHORT):
            await asyncio.Event().wait()

    assert (await slot.failure(handler)).error_type == "TimeoutError"


async def test_an_inner_timeout_that_expires_leaves_the_outer_one_alone(slot: Slot) -> None:
    async def handler() -> list[str]:
        seen = []
        async with asyncio.timeout(10):
            try:
                async with asyncio.timeout(SHORT):
                    await asyncio.Event().wait()
            except TimeoutError:
                seen.append("inner")
            await asyncio.sleep(0)
            seen.append("outer")
        return seen

    assert await slot.value(handler) == ["inner", "outer"]


async def test_an_outer_timeout_that_expires_goes_through_the_inner_one(slot: Slot) -> None:
    async def handler() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(SHORT):
                try:
                    async with asyncio.timeout(10):
                        await asyncio.Event().wait()
                except TimeoutError:
                    seen.append("inner")
        except TimeoutError:
            seen.append("outer")
        return seen

    assert await slot.value(handler) == ["outer"]


async def test_a_timeout_already_in_the_past(slot: Slot) -> None:
    async def handler() -> str:
        try:
            async with asyncio.timeout(-1):
                await asyncio.sleep(0)
                await asyncio.Event().wait()
        except TimeoutError:
            return "expired"
        return "not expired"

    assert await slot.value(handler) == "expired"


async def test_a_timeout_that_expired_while_nothing_was_awaited(slot: Slot) -> None:
    async def handler() -> str:
        async with asyncio.timeout(0):  # noqa: ASYNC100
            pass
        return "done"

    assert await slot.value(handler) == "done"


async def test_waiting_for_something_with_wait_for(slot: Slot) -> None:
    async def handler() -> list[object]:
        value = await asyncio.wait_for(asyncio.sleep(0, "value"), 10)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), SHORT)
        except TimeoutError:
            return [value, "expired"]
        return [value]

    assert await slot.value(handler) == ["value", "expired"]


async def test_the_jobs_timeout_goes_through_the_handlers_own(slot: Slot) -> None:
    async def handler() -> str:
        try:
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        except TimeoutError:
            return "taken for its own"
        return "not expired"

    failure = await slot.failure(handler, timeout=SHORT)
    assert "did not end within its timeout" in failure.error


async def test_the_handlers_own_timeout_within_the_jobs(slot: Slot) -> None:
    async def handler() -> str:
        try:
            async with asyncio.timeout(SHORT):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
        return "went on"

    assert await slot.value(handler, timeout=30) == "went on"


# --- task groups ---------------------------------------------------------------------------------------


async def test_a_task_group(slot: Slot) -> None:
    async def child(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def handler() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(n)) for n in range(3)]
        return [task.result() for task in tasks]

    assert await slot.value(handler) == [0, 1, 2]


async def test_a_task_group_whose_child_fails(slot: Slot) -> None:
    cleaned: list[str] = []

    async def fail() -> None:
        raise ValueError("a child's")

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("sibling")

    async def handler() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(hang())
            await asyncio.sleep(0)
            group.create_task(fail())
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append("handler")

    failure = await slot.failure(handler)
    assert failure.error_type == "ExceptionGroup"
    assert "ValueError: a child's" in failure.traceback
    assert sorted(cleaned) == ["handler", "sibling"]


async def test_a_task_group_whose_childs_failure_is_handled(slot: Slot) -> None:
    async def fail() -> None:
        raise ValueError("a child's")

    async def handler() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        await asyncio.sleep(0)
        return "went on"

    assert await slot.value(handler) == "went on"


async def test_cancelling_the_job_cancels_the_children_of_its_task_group(slot: Slot) -> None:
    inside, cleaned = asyncio.Event(), list[str]()

    async def child() -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("child")

    async def handler() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    assert await slot.cancelled(handler, inside) is JobStatus.CANCELLED
    assert cleaned == ["child"]


async def test_a_timeout_around_a_task_group(slot: Slot) -> None:
    async def handler() -> str:
        try:
            async with asyncio.timeout(SHORT):
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.Event().wait())
        except TimeoutError:
            return "expired"
        return "not expired"

    assert await slot.value(handler) == "expired"


# --- anyio ---------------------------------------------------------------------------------------------


async def test_anyios_scopes(slot: Slot) -> None:
    async def handler() -> list[object]:
        with anyio.move_on_after(SHORT) as moved:
            await anyio.sleep_forever()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(10)
        with anyio.move_on_after(10) as unmoved:
            await anyio.lowlevel.checkpoint()
        return [moved.cancelled_caught, scope.cancelled_caught, unmoved.cancelled_caught]

    assert await slot.value(handler) == [True, True, False]


async def test_anyios_fail_after(slot: Slot) -> None:
    async def handler() -> None:
        with anyio.fail_after(SHORT):
            await anyio.sleep_forever()

    assert (await slot.failure(handler)).error_type == "TimeoutError"


async def test_anyios_task_groups(slot: Slot) -> None:
    async def handler() -> list[int]:
        seen: list[int] = []

        async def child(n: int) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(n)

        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(child, n)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.cancel_scope.cancel()
        return sorted(seen)

    assert await slot.value(handler) == [0, 1, 2]


async def test_anyios_task_group_whose_child_fails(slot: Slot) -> None:
    async def fail() -> None:
        raise ValueError("a child's")

    async def handler() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await anyio.sleep_forever()

    assert "ValueError: a child's" in (await slot.failure(handler)).traceback


async def test_anyios_shield_holds_against_the_scopes_and_not_against_the_job(slot: Slot) -> None:
    async def handler() -> str:
        with anyio.move_on_after(0) as outer:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(SHORT)
            await anyio.lowlevel.checkpoint()
        return "moved on" if outer.cancelled_caught else "not moved"

    assert await slot.value(handler) == "moved on"


async def test_the_jobs_timeout_goes_through_anyios_scopes(slot: Slot) -> None:
    async def handler() -> None:
        with anyio.move_on_after(10), anyio.CancelScope():
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)

    assert "did not end within its timeout" in (await slot.failure(handler, timeout=SHORT)).error


async def test_cancelling_the_job_goes_through_anyios_scopes(slot: Slot) -> None:
    inside = asyncio.Event()

    async def handler() -> None:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                inside.set()

    assert await slot.cancelled(handler, inside) is JobStatus.CANCELLED


async def test_anyios_threads(slot: Slot) -> None:
    async def handler() -> list[object]:
        word.set("handler's")
        ident = await anyio.to_thread.run_sync(threading.get_ident)
        return [ident != threading.get_ident(), await anyio.to_thread.run_sync(word.get)]

    assert await slot.value(handler) == [True, "handler's"]


# --- context variables ---------------------------------------------------------------------------------


async def test_what_one_job_sets_the_next_does_not_see(slot: Slot) -> None:
    async def handler() -> str:
        before = word.get()
        word.set("before the suspension")
        await asyncio.sleep(0)
        word.set("after it")
        return before

    for _ in range(3):
        assert await slot.value(handler) == "nothing"


async def test_what_is_set_is_seen_again_after_a_suspension(slot: Slot) -> None:
    async def handler() -> list[str]:
        token = word.set("set")
        await asyncio.sleep(0)
        seen = [word.get()]
        word.reset(token)
        await asyncio.sleep(0)
        return [*seen, word.get()]

    assert await slot.value(handler) == ["set", "nothing"]


async def test_jobs_that_take_turns_each_keep_their_own(app: App) -> None:
    @app.task(name="turns")
    async def turns(name: str) -> list[str]:
        word.set(name)
        seen = []
        for _ in range(5):
            await asyncio.sleep(0)
            seen.append(word.get())
        return seen

    jobs = await app.enqueue_many([turns.call(str(n)) for n in range(30)])
    await drain(app, concurrency=5)
    for n, job in enumerate(jobs):
        assert await job.result() == [str(n)] * 5


async def test_children_and_threads_inherit_them(slot: Slot) -> None:
    async def child() -> str:
        return word.get()

    async def handler() -> list[str]:
        word.set("handler's")
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        called: asyncio.Future[str] = loop.create_future()
        loop.call_soon(lambda: called.set_result(word.get()))
        return [await asyncio.create_task(child()), await asyncio.to_thread(word.get), await called]

    assert await slot.value(handler) == ["handler's"] * 3


async def test_what_a_child_sets_stays_with_the_child(slot: Slot) -> None:
    async def child() -> None:
        word.set("child's")

    async def handler() -> str:
        word.set("handler's")
        await asyncio.create_task(child())
        await asyncio.to_thread(word.set, "thread's")
        return word.get()

    assert await slot.value(handler) == "handler's"


async def test_what_the_worker_was_started_with_is_seen(app: App) -> None:
    @app.task(name="see")
    async def see() -> str:
        return word.get()

    @app.task(name="plain")
    def plain() -> str:
        return word.get()

    token = word.set("outside")
    jobs = [await see.enqueue(), await plain.enqueue()]
    await drain(app)
    word.reset(token)
    assert [await job.result() for job in jobs] == ["outside"] * 2


async def test_the_contexts_of_plain_functions_are_their_own(slot: Slot) -> None:
    def handler() -> str:
        before = word.get()
        word.set("plain")
        return before

    assert await slot.value(handler) == "nothing"
    assert await slot.value(handler) == "nothing"


# --- threads of its own --------------------------------------------------------------------------------


async def test_threads_and_executors(slot: Slot) -> None:
    async def handler() -> list[str]:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(woken.set_result, "from a thread"))
        thread.start()
        values = [await woken, await asyncio.to_thread(str, 7), await loop.run_in_executor(None, str, 8)]
        thread.join()
        return values

    assert await slot.value(handler) == ["from a thread", "7", "8"]


async def test_a_loop_of_its_own_in_a_plain_function(slot: Slot) -> None:
    def handler() -> int:
        async def inner() -> int:
            await asyncio.sleep(0)
            return 7

        return asyncio.run(inner())

    assert await slot.value(handler) == 7


# --- cancellation --------------------------------------------------------------------------------------


async def test_swallowing_the_jobs_timeout(slot: Slot) -> None:
    async def handler() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return "went on"

    assert await slot.value(handler, timeout=SHORT) == "went on"


async def test_swallowing_the_jobs_cancellation(slot: Slot) -> None:
    inside = asyncio.Event()

    async def handler() -> str:
        inside.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        return "went on"

    assert await slot.cancelled(handler, inside) is JobStatus.CANCELLED


async def test_swallowing_the_shutdown_and_returning_soon(app: App) -> None:
    inside = asyncio.Event()

    @app.task(name="handler")
    async def handler() -> str:
        inside.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return "done all the same"

    job = await handler.enqueue()
    async with app.worker(concurrency=1, grace=0):
        await inside.wait()
    assert await job.result() == "done all the same"


async def test_swallowing_a_cancellation_and_taking_it_back(slot: Slot) -> None:
    async def handler() -> int:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        task.uncancel()
        await asyncio.sleep(0)
        return task.cancelling()

    assert await slot.value(handler, timeout=SHORT) == 0


async def test_cancelling_itself_and_returning_at_once(slot: Slot) -> None:
    async def handler() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    assert await slot.value(handler) == "returned"


async def test_cancelling_itself_several_times_and_returning_after_a_suspension(slot: Slot) -> None:
    async def handler() -> str:
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
        return "returned"

    assert await slot.value(handler) == "returned"


async def test_cancelling_itself_taking_it_back_and_returning(slot: Slot) -> None:
    async def handler() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.uncancel()
        return "returned"

    assert await slot.value(handler) == "returned"


async def test_cancelling_itself_and_waiting(slot: Slot) -> None:
    async def handler() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("enough")
        await asyncio.sleep(0)

    failure = await slot.failure(handler)
    assert failure.error_type == "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize("suspends", [False, True])
async def test_raising_a_cancellation_by_hand(slot: Slot, suspends: bool) -> None:
    async def handler() -> None:
        if suspends:
            await asyncio.sleep(0)
        raise asyncio.CancelledError("by hand")

    failure = await slot.failure(handler)
    assert (failure.error_type, failure.error) == ("asyncio.exceptions.CancelledError", "by hand")


async def test_awaiting_a_child_that_is_cancelled(slot: Slot) -> None:
    async def handler() -> str:
        child = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        child.cancel()
        try:
            await child
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            return f"cancelled, and not me: {task.cancelling()}"
        return "not cancelled"

    assert await slot.value(handler) == "cancelled, and not me: 0"


async def test_an_error_in_finally_counts(slot: Slot) -> None:
    inside = asyncio.Event()

    async def handler() -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    assert (await slot.failure(handler, timeout=SHORT)).error == "while cleaning up"


async def test_a_task_kept_and_cancelled_later_costs_no_slot(app: App) -> None:
    kept: list[asyncio.Task[Any]] = []

    @app.task(name="keep")
    async def keep() -> int:
        task = asyncio.current_task()
        assert task is not None
        kept.append(task)
        return 1

    async with app.worker(concurrency=1):
        for n in range(3):
            assert await (await keep.enqueue()).result(timeout=10) == 1
            assert len(kept) == n + 1
            kept[-1].cancel()
            await wait_until(kept[-1].done)


async def test_a_child_left_behind_goes_on(slot: Slot) -> None:
    gate, done = asyncio.Event(), asyncio.Event()
    children: list[asyncio.Task[None]] = []

    async def child() -> None:
        await gate.wait()
        assert word.get() == "handler's"
        done.set()

    async def handler() -> int:
        word.set("handler's")
        children.append(asyncio.create_task(child()))
        return 1

    assert await slot.value(handler) == 1
    gate.set()
    await asyncio.wait_for(done.wait(), 10)


# --- odd errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SystemExit(3), "SystemExit"),
        (StopIteration(3), "RuntimeError"),
        (StopAsyncIteration(3), "StopAsyncIteration"),
        (GeneratorExit(), "RuntimeError"),
        (BaseException("at the root"), "BaseException"),
        (BaseExceptionGroup("two", [SystemExit(1), ValueError("no")]), "BaseExceptionGroup"),
    ],
)
async def test_whatever_a_coroutine_raises_is_a_failure_of_its_job(
    slot: Slot, error: BaseException, expected: str, suspended: bool
) -> None:
    async def handler() -> None:
        if suspended:
            await asyncio.sleep(0)
        raise error

    assert (await slot.failure(handler)).error_type == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SystemExit(3), "SystemExit"),
        (StopIteration(3), "RuntimeError"),
        (StopAsyncIteration(3), "StopAsyncIteration"),
        (GeneratorExit(), "RuntimeError"),
        (KeyboardInterrupt(), "RuntimeError"),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError"),
        (BaseException("at the root"), "BaseException"),
    ],
)
async def test_whatever_a_plain_function_raises_is_a_failure_of_its_job(
    slot: Slot, error: BaseException, expected: str
) -> None:
    def handler() -> None:
        raise error

    assert (await slot.failure(handler)).error_type == expected


async def test_an_error_raised_twice_is_told_twice(slot: Slot) -> None:
    error = ValueError("always the same object")

    async def handler() -> None:
        raise error

    for _ in range(2):
        assert (await slot.failure(handler)).error == "always the same object"


async def test_a_coroutine_that_nobody_awaits_is_a_failure_and_no_silent_success(slot: Slot) -> None:
    async def real() -> int:
        return 1

    def handler() -> object:
        return real()

    failure = await slot.failure(handler)
    assert "returned a coroutine that is never awaited" in failure.error


# --- generators and context managers -------------------------------------------------------------------


async def test_async_generators_and_context_managers_across_suspensions(slot: Slot) -> None:
    order: list[str] = []

    @contextlib.asynccontextmanager
    async def resource(name: str) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        order.append(f"open {name}")
        try:
            yield name
        finally:
            await asyncio.sleep(0)
            order.append(f"close {name}")

    async def numbers() -> AsyncIterator[int]:
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    async def handler() -> list[int]:
        async with resource("a"), resource("b"):
            return [n async for n in numbers()]

    assert await slot.value(handler) == [0, 1, 2]
    assert order == ["open a", "open b", "close b", "close a"]


async def test_they_are_closed_when_the_job_is_cancelled(slot: Slot) -> None:
    inside, order = asyncio.Event(), list[str]()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            inside.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("closed")

    async def handler() -> None:
        async with contextlib.aclosing(numbers()) as generator:
            async for _ in generator:
                await asyncio.sleep(0)

    assert await slot.cancelled(handler, inside) is JobStatus.CANCELLED
    assert order == ["closed"]


async def test_an_awaitable_of_the_old_kind(slot: Slot) -> None:
    class Twice:
        def __await__(self) -> Generator[None, None, str]:
            yield
            yield
            return "twice"

    async def handler() -> str:
        return await Twice()

    assert await slot.value(handler) == "twice"
