"""KeyboardInterrupt and SystemExit in handlers, and in what they start, are errors of the job."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from headrace import App, Depends, JobStatus, RetryPolicy, Run, signals
from tests.support.waiting import wait_until
from tests.unit.behaviour.work import of

pytestmark = pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])

Error = type[BaseException]


@pytest.fixture
async def app(app: App) -> App:
    @app.task(name="double")
    async def double(n: int) -> int:
        return 2 * n

    return app


async def goes_on(app: App) -> None:
    """The worker still runs jobs."""
    assert await (await app.tasks["double"].enqueue(4)).result(timeout=10) == 8


async def test_in_a_handler(app: App, error: Error) -> None:
    @app.task(name="at_once", retry=RetryPolicy.none())
    async def at_once() -> None:
        raise error

    @app.task(name="later", retry=RetryPolicy.none())
    async def later() -> None:
        await asyncio.sleep(0.001)
        raise error

    async with app.worker():
        for task in (at_once, later):
            assert await (await task.enqueue()).wait(timeout=10) is JobStatus.DEAD
        await goes_on(app)
        assert [letter.error_type for letter in await app.admin.dead()] == [error.__name__] * 2


async def test_in_a_task_that_a_handler_waits_for(app: App, error: Error) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    @app.task(name="waits", retry=RetryPolicy.none())
    async def waits() -> None:
        await asyncio.create_task(fail())

    @app.task(name="groups", retry=RetryPolicy.none())
    async def groups() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async with app.worker():
        for task in (waits, groups):
            assert await (await task.enqueue()).wait(timeout=10) is JobStatus.DEAD
        await goes_on(app)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_in_a_task_that_a_handler_left_behind(
    app: App, heard: list[signals.Signal], error: Error
) -> None:
    gate = asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def fail() -> None:
        await gate.wait()
        raise error

    @app.task(name="leaves")
    async def leaves() -> int:
        left.append(asyncio.create_task(fail()))
        return 1

    async with app.worker():
        job = await leaves.enqueue()
        assert await job.wait(timeout=10) is JobStatus.SUCCEEDED
        gate.set()
        await wait_until(lambda: of(signals.LeftTaskFailed, heard))
        [failed] = of(signals.LeftTaskFailed, heard)
        assert (failed.id, failed.task) == (job.id, "leaves")
        assert error.__name__ in failed.error
        await goes_on(app)
    assert isinstance(left[0].exception(), RuntimeError)


async def test_in_middleware(app: App, error: Error) -> None:
    @app.use
    async def fail(run: Run, call_next: Callable[[Run], Awaitable[object]]) -> object:
        if run.task == "fails":
            await asyncio.sleep(0)
            raise error
        return await call_next(run)

    @app.task(name="fails", retry=RetryPolicy.none())
    async def fails() -> None: ...

    async with app.worker():
        assert await (await fails.enqueue()).wait(timeout=10) is JobStatus.DEAD
        await goes_on(app)


async def test_in_dependencies(app: App, error: Error) -> None:
    async def made() -> int:
        await asyncio.sleep(0)
        raise error

    async def left() -> AsyncIterator[int]:
        yield 1
        raise error

    @app.task(name="job_scope", retry=RetryPolicy.none())
    async def job_scope(n: int = Depends(made)) -> None: ...

    @app.task(name="worker_scope", retry=RetryPolicy.none())
    async def worker_scope(n: int = Depends(made, scope="worker")) -> None: ...

    @app.task(name="in_thread", retry=RetryPolicy.none())
    def in_thread(n: int = Depends(made)) -> None: ...

    @app.task(name="cleanup", retry=RetryPolicy.none())
    async def cleanup(n: int = Depends(left, scope="worker")) -> int:
        return n

    async with app.worker():
        for task in (job_scope, worker_scope, in_thread):
            assert await (await task.enqueue()).wait(timeout=10) is JobStatus.DEAD
        assert await (await cleanup.enqueue()).wait(timeout=10) is JobStatus.SUCCEEDED
        await goes_on(app)


@pytest.mark.parametrize("batch", [None, 5])
async def test_in_handlers_of_events(app: App, error: Error, batch: int | None) -> None:
    topic = app.topic("orders", int)

    @topic.subscribe(group="billing", retry=RetryPolicy.none(), start="beginning", batch=batch)  # type: ignore[untyped-decorator]
    async def bill(event: Any) -> None:
        await asyncio.sleep(0)
        raise error

    async def dead() -> int:
        return len(await app.admin.dead(topic="orders", group="billing"))

    await topic.publish_many([1, 2, 3])
    async with app.worker():
        await wait_until(lambda: _is(dead, 3))
        await goes_on(app)


async def _is(counted: Callable[[], Awaitable[int]], expected: int) -> bool:
    return await counted() == expected


#: A shell that runs the tests in the background may have them ignore SIGINT, which a child inherits.
EMBEDDED = """
import asyncio, signal, sys
from headrace import App

signal.signal(signal.SIGINT, signal.default_int_handler)

app = App("memory://")

@app.task
async def spin() -> None:
    print("started", flush=True)
    while True:
        pass

async def main() -> None:
    await spin.enqueue()
    async with app.worker(grace=0):
        await asyncio.Event().wait()

if sys.argv[1] == "runner":
    asyncio.run(main())
else:
    asyncio.new_event_loop().run_until_complete(main())
"""


@pytest.mark.parametrize("how", ["runner", "loop"])
async def test_a_real_one_stops_a_program_with_a_worker_in_it(error: Error, how: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", EMBEDDED, how]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        while process.returncode is None:  # the handler never lets go: the second one is raised in it
            process.send_signal(signal.SIGINT)
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.2)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode != 0
