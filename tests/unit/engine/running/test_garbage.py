"""What a run refers to is freed when the run is over. Cycles would keep it until the next full garbage
collection, which is rare in a large process."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from weakref import ref

import msgspec
import pytest

from headrace import App, CallNext, Event, RetryPolicy, Run
from tests.support.waiting import wait_until

#: Failures of a test, and the slots of its worker. A slot keeps its last run until it has another one.
FAILURES = 20
SLOTS = 2


class Argument(msgspec.Struct, weakref=True):
    fails: bool = True


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class SeenArguments:
    """Knows what handlers were given, and whether it is still in memory."""

    def __init__(self) -> None:
        self._arguments: list[ref[Argument]] = []

    def fail(self, argument: Argument) -> None:
        self._arguments.append(ref(argument))
        raise ValueError("as planned")

    def are_freed(self) -> bool:
        alive = [argument for argument in self._arguments if argument() is not None]
        return len(self._arguments) == FAILURES and len(alive) <= SLOTS


@pytest.mark.parametrize("middleware", [False, True])
@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_the_arguments_of_a_failed_job_are_freed(kind: str, middleware: bool) -> None:
    app, seen = App("memory://", retry=RetryPolicy.none()), SeenArguments()

    @app.task(name="loop")
    async def on_loop(argument: Argument) -> None:
        await asyncio.sleep(0)
        seen.fail(argument)

    @app.task(name="thread")
    def in_thread(argument: Argument) -> None:
        seen.fail(argument)

    async def wrap(run: Run, call_next: CallNext) -> object:
        await asyncio.sleep(0)
        return await call_next(run)

    if middleware:
        app.use(wrap)
    task = on_loop if kind == "loop" else in_thread
    async with app, app.worker(concurrency=SLOTS):
        await app.enqueue_many([task.call(Argument()) for _ in range(FAILURES)])
        await wait_until(seen.are_freed)


async def test_events_that_a_fan_out_handles_again_are_freed() -> None:
    app, seen = App("memory://"), SeenArguments()
    topic = app.topic("argument", Argument)

    @topic.subscribe(fan_out=True, retry=RetryPolicy.fixed(1, 0.01))
    async def handle(event: Event[Argument]) -> None:
        seen.fail(event.payload)

    async with app, app.worker(concurrency=SLOTS):
        for _ in range(FAILURES // 2):
            await topic.publish(Argument())
        await wait_until(seen.are_freed)
