"""Depends: values that the worker provides to a handler, in place of the caller."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import pytest

from headrace import (
    App,
    ConfigurationError,
    Depends,
    InvalidPayload,
    JobFailed,
    JobStatus,
    RetryPolicy,
    current_job,
    signals,
)
from headrace.engine.running.injection.dependencies import Need
from headrace.engine.running.injection.resources import Resources
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import drain, of

#: What happened, in order; each test begins with nothing.
story: list[Any] = []


@pytest.fixture(autouse=True)
def empty_story() -> None:
    story.clear()


def plain() -> str:
    return "plain"


async def coroutine() -> str:
    await asyncio.sleep(0)
    return "coroutine"


def generator() -> Iterator[str]:
    story.append("in generator")
    try:
        yield "generator"
    except Exception as error:
        story.append(f"{error} in generator")
        raise
    finally:
        story.append("out generator")


async def async_generator() -> AsyncIterator[str]:
    story.append("in async_generator")
    await asyncio.sleep(0)
    try:
        yield "async_generator"
    except Exception as error:
        story.append(f"{error} in async_generator")
        raise
    finally:
        await asyncio.sleep(0)
        story.append("out async_generator")


@contextmanager
def manager() -> Iterator[str]:
    yield "manager"
    story.append("out manager")


@asynccontextmanager
async def async_manager() -> AsyncIterator[str]:
    # Scopes and task groups have to be entered and left in one task.
    async with asyncio.timeout(3600), asyncio.TaskGroup():
        yield "async_manager"
    story.append("out async_manager")


EVERY_KIND = [plain, coroutine, generator, async_generator, manager, async_manager]


@pytest.mark.parametrize("factory", EVERY_KIND)
@pytest.mark.parametrize("scope", ["job", "worker"])
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_every_kind_of_factory(app: App, factory: Any, scope: Any, place: str) -> None:
    if place == "loop":

        @app.task(name="use")
        async def use(a: int, value: str = Depends(factory, scope=scope)) -> list[Any]:
            await asyncio.sleep(0)
            return [a, value]

    else:

        @app.task(name="use")
        def use(a: int, value: str = Depends(factory, scope=scope)) -> list[Any]:
            return [a, value]

    jobs = [await use.enqueue(number) for number in range(3)]
    await drain(app)
    assert [await job.result() for job in jobs] == [[number, factory.__name__] for number in range(3)]
    cleaned = f"out {factory.__name__}"
    if factory not in (plain, coroutine):
        assert story.count(cleaned) == (3 if scope == "job" else 1)


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_they_are_cleaned_up_in_reverse_and_see_the_error(app: App, place: str) -> None:
    def fail(one: str = Depends(generator), two: str = Depends(async_generator)) -> None:
        raise ValueError("boom")

    async def fail_async(one: str = Depends(generator), two: str = Depends(async_generator)) -> None:
        raise ValueError("boom")

    task = app.task(name="fail", retry=RetryPolicy.none())(fail if place == "thread" else fail_async)
    job = await task.enqueue()
    await drain(app)
    info = await job.info()
    assert (info.status, info.error_type, info.error) == (JobStatus.DEAD, "ValueError", "boom")
    assert story == [
        "in generator",
        "in async_generator",
        "boom in async_generator",
        "out async_generator",
        "boom in generator",
        "out generator",
    ]


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_cleanup_that_swallows_the_error_does_not_hide_the_failure(app: App, place: str) -> None:
    async def careless() -> AsyncIterator[int]:
        try:
            yield 1
        except ValueError:
            story.append("swallowed")

    def fail(one: int = Depends(careless)) -> None:
        raise ValueError("boom")

    async def fail_async(one: int = Depends(careless)) -> None:
        raise ValueError("boom")

    task = app.task(name="fail", retry=RetryPolicy.none())(fail if place == "thread" else fail_async)
    job = await task.enqueue()
    await drain(app)
    assert (await job.info()).error == "boom"
    assert story == ["swallowed"]


@pytest.mark.parametrize("scope", ["job", "worker"])
async def test_a_dependency_that_fails_is_the_jobs_failure_and_retried(app: App, scope: Any) -> None:
    async def shaky() -> str:
        story.append("asked")
        if len(story) < 3:
            raise ConnectionError("no database")
        return "there"

    @app.task(name="use", retry=RetryPolicy.fixed(5, 0))
    async def use(value: str = Depends(shaky, scope=scope)) -> str:
        return value

    job = await use.enqueue()
    await drain(app)
    assert await job.result() == "there"
    assert story == ["asked"] * 3


@pytest.mark.parametrize("scope", ["job", "worker"])
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_factory_may_even_raise_stop_iteration(app: App, scope: Any, place: str) -> None:
    def first() -> int:
        return next(iter(()))

    async def use_async(value: int = Depends(first, scope=scope)) -> int:
        return value

    def use(value: int = Depends(first, scope=scope)) -> int:
        return value

    task = app.task(name="use", retry=RetryPolicy.none())(use if place == "thread" else use_async)
    job = await task.enqueue()
    await drain(app)
    assert "StopIteration" in (await job.info()).error


async def test_after_the_worker_there_is_nothing_to_be_had(app: App) -> None:
    resources = Resources(announce=lambda name, error: None)
    await resources.open()
    await resources.close()
    with pytest.raises(RuntimeError, match="the worker has stopped"):
        await resources.shared(Need("value", plain, "worker"))


async def test_leaving_in_a_hurry_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.running.injection.resources.HURRIED", 0)

    async def endless() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            story.append("cancelled")

    resources = Resources(announce=lambda name, error: story.append(name))
    await resources.open()
    assert await resources.shared(Need("value", endless, "worker")) == 1
    hurry = asyncio.Event()
    hurry.set()
    await resources.close(hurry)
    await wait_until(lambda: story == ["cancelled"])


async def test_a_cleanup_that_fails_is_the_jobs_failure(app: App) -> None:
    def commit() -> Iterator[int]:
        yield 1
        raise ConnectionError("not committed")

    @app.task(name="use", retry=RetryPolicy.none())
    async def use(value: int = Depends(commit)) -> int:
        return value

    job = await use.enqueue()
    await drain(app)
    with pytest.raises(JobFailed, match="not committed"):
        await job.result()


async def test_they_nest_and_each_is_made_once_in_a_run(app: App) -> None:
    def connection() -> Iterator[object]:
        story.append("connect")
        yield object()
        story.append("disconnect")

    async def users(db: object = Depends(connection)) -> tuple[str, object]:
        return "users", db

    def orders(db: object = Depends(connection), users: Any = Depends(users)) -> tuple[object, object]:
        return db, users

    @app.task(name="use")
    def use(
        a: int,
        *,
        orders: Any = Depends(orders),
        users: Any = Depends(users),
        db: object = Depends(connection),
    ) -> bool:
        story.append("use")
        return bool(orders == (db, users) and users == ("users", db))

    job = await use.enqueue(1)
    await drain(app)
    assert await job.result() is True
    assert story == ["connect", "use", "disconnect"]


async def test_the_workers_scope_is_made_once_for_jobs_side_by_side_and_ends_with_the_worker(
    app: App,
) -> None:
    async def engine() -> AsyncIterator[str]:
        story.append("engine")
        await asyncio.sleep(0)
        yield "engine"
        story.append("engine gone")

    def pool(engine: str = Depends(engine, scope="worker")) -> Iterator[str]:
        story.append("pool")
        yield f"pool of {engine}"
        story.append("pool gone")

    @app.task(name="use")
    async def use(pool: str = Depends(pool, scope="worker")) -> str:
        return pool

    @app.task(name="use_too")
    def use_too(engine: str = Depends(engine, scope="worker")) -> str:
        return engine

    jobs = await app.enqueue_many([use.call() for _ in range(5)] + [use_too.call() for _ in range(5)])
    await drain(app)
    assert {await job.result() for job in jobs} == {"pool of engine", "engine"}
    assert story == ["engine", "pool", "pool gone", "engine gone"]


async def test_a_job_that_is_cancelled_does_not_spoil_what_is_made_for_all(app: App) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        asked.set()
        await go_on.wait()
        return "made"

    @app.task(name="use")
    async def use(value: str = Depends(slow, scope="worker")) -> str:
        return value

    async with app.worker():
        first = await use.enqueue()
        await asked.wait()
        second = await use.enqueue()
        await first.cancel()
        assert await first.wait() is JobStatus.CANCELLED
        go_on.set()
        assert await second.result(timeout=10) == "made"


async def test_what_is_being_made_when_the_worker_stops_is_given_up(app: App) -> None:
    asked = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        asked.set()
        try:
            await asyncio.Event().wait()
            yield "never"
        finally:
            story.append("given up")

    @app.task(name="use")
    async def use(value: str = Depends(endless, scope="worker")) -> str:
        return value

    job = await use.enqueue()
    async with app.worker(grace=0):
        await asked.wait()
    assert story == ["given up"]
    assert await job.status() is JobStatus.QUEUED


async def test_an_error_when_the_worker_leaves_one_is_announced(
    app: App, heard: list[signals.Signal]
) -> None:
    def pool() -> Iterator[int]:
        yield 1
        raise ConnectionError("already closed")

    @app.task(name="use")
    async def use(value: int = Depends(pool, scope="worker")) -> int:
        return value

    await use.enqueue()
    await drain(app)
    [failed] = of(signals.CleanupFailed, heard)
    assert failed.resource.endswith("pool")
    assert failed.error == "ConnectionError: already closed"


async def test_a_plain_factory_runs_in_the_thread_of_its_task(app: App) -> None:
    def here() -> Iterator[int]:
        yield threading.get_ident()
        story.append(threading.get_ident())

    @app.task(name="use")
    def use(made_in: int = Depends(here)) -> list[int]:
        return [made_in, threading.get_ident()]

    job = await use.enqueue()
    await drain(app)
    made_in, ran_in = await job.result()
    assert made_in == ran_in == story[0] != threading.get_ident()


async def test_a_factory_knows_the_job(app: App) -> None:
    async def who() -> str:
        return current_job().id

    @app.task(name="use")
    def use(id: str = Depends(who)) -> str:
        return id

    job = await use.enqueue()
    await drain(app)
    assert await job.result() == job.id


async def test_middleware_does_not_see_them(app: App) -> None:
    async def look(run: Any, call_next: Any) -> object:
        story.append((run.args, run.kwargs))
        return await call_next(run)

    app.use(look)

    @app.task(name="use")
    async def use(a: int, value: str = Depends(plain)) -> str:
        return value

    job = await use.enqueue(3)
    await drain(app)
    assert (await job.result(), story) == ("plain", [((3,), {})])


async def test_a_caller_cannot_send_one(app: App) -> None:
    @app.task(name="use")
    async def use(a: int, value: str = Depends(plain), b: int = 2) -> list[Any]:
        return [a, b, value]

    with pytest.raises(InvalidPayload, match="the worker provides value"):
        await use.enqueue(1, value="mine")
    with pytest.raises(InvalidPayload, match="too many positional arguments"):
        await use.enqueue(1, "mine")
    with pytest.raises(InvalidPayload, match="missing a required argument: 'a'"):
        await use.enqueue()  # type: ignore[call-arg]
    job = await use.enqueue(1, b=5)
    await drain(app)
    assert await job.result() == [1, 5, "plain"]
    assert str(inspect.signature(use)) == "(a: 'int', *, b: 'int' = 2) -> 'list[Any]'"
    assert inspect.signature(use.with_(delay=1)) == inspect.signature(use)


async def test_a_type_that_cannot_be_sent_is_no_hindrance(app: App) -> None:
    class Database:
        """Holds a connection, say."""

    @app.task(name="use")
    async def use(db: Database = Depends(Database)) -> bool:
        return isinstance(db, Database)

    job = await use.enqueue()
    await drain(app)
    assert await job.result() is True


async def test_calling_the_task_provides_them_too_unless_they_are_given(app: App) -> None:
    @app.task(name="use")
    async def use(a: int, value: str = Depends(async_generator, scope="worker")) -> list[Any]:
        return [a, value]

    assert await use(1) == [1, "async_generator"]
    assert story == ["in async_generator", "out async_generator"]
    assert await use(1, "mine") == await use(1, value="mine") == [1, "mine"]


def test_calling_a_plain_task_provides_them_too() -> None:
    app = App("memory://")

    @app.task(name="use")
    def use(a: int, one: str = Depends(async_generator), two: str = Depends(plain)) -> list[Any]:
        return [a, one, two]

    assert use(1) == [1, "async_generator", "plain"]
    assert story == ["in async_generator", "out async_generator"]


async def test_a_plain_task_called_on_the_loop_cannot_wait_for_it(app: App) -> None:
    @app.task(name="use")
    def use(value: str = Depends(coroutine)) -> str:
        return value

    @app.task(name="call", retry=RetryPolicy.none())
    async def call() -> str:
        return use()

    with pytest.raises(RuntimeError, match="on the event loop itself"):
        use()
    job = await call.enqueue()
    await drain(app)
    assert "cannot be waited for on the event loop itself" in (await job.info()).error


def wants(a: int) -> int:
    return a


def of_the_job(value: str = Depends(plain)) -> str:
    return value


def positional_only(value: str = Depends(plain), /) -> str:
    return value


def before_the_rest(value: str = Depends(plain), *rest: int) -> str:
    return value


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (lambda: Depends(cast(Any, 3)), "takes a function that makes the value, not 3"),
        (lambda: Depends(plain, scope=cast(Any, "app")), "'job' or 'worker', not 'app'"),
        (lambda: _declare(Depends(wants)), "nothing is known for a"),
        (lambda: _declare(Depends(of_the_job, scope="worker")), "its value needs scope='worker' too"),
        (lambda: App("memory://").task(positional_only), "put it behind a `\\*`"),
        (lambda: App("memory://").task(before_the_rest), "put it behind a `\\*`"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(declare: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        declare()


def _declare(dependency: Any) -> None:
    def use(value: Any = dependency) -> None: ...

    App("memory://").task(use)
