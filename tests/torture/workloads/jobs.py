"""Jobs of every kind: coroutines, threads and child processes; timeouts, retries, delays, priorities, unique
keys, results, cancellations, progress, dependencies, middleware, schedules, large and tiny bodies, several
queues. Producers use one event loop, short-lived event loops, or threads."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

import msgspec

from headrace import (
    Call,
    CallNext,
    Depends,
    HeadraceError,
    Job,
    RetryLater,
    RetryPolicy,
    Run,
    Snooze,
    Task,
    current_job,
)
from tests.torture.facts import Plan
from tests.torture.program import TIMEOUT as SHORT_TIMEOUT
from tests.torture.program import PlannedFailure, Program

program = Program.from_environment(rate=400.0)
app = program.app

QUEUES: Final = ("default", "mails", "reports", "wide", *(f"queue-{number}" for number in range(8)))

#: Seconds that a few jobs take: longer than the lease.
LONG: Final = 4.0

#: Seconds after which a run is interrupted, for tasks that have a timeout.
TIMEOUT: Final = float(os.environ.get(SHORT_TIMEOUT, 0.8))

app.queue("wide", partitions=program.partitions)


class Work(msgspec.Struct):
    """What one job does. `fails`: in so many runs; with `overruns`, by exceeding its timeout."""

    message: str
    nap: float = 0.0
    fails: int = 0
    overruns: bool = False
    snoozes: bool = False
    retries_later: bool = False  # it fails by asking for another run
    body: bytes = b""
    answer: int = 0  # bytes that its result has beyond the name of the message


@app.use
async def wrap(run: Run, call_next: CallNext) -> object:
    """As middleware does: something before, something after, and the value goes through."""
    await asyncio.sleep(0)
    return await call_next(run)


async def connection() -> AsyncIterator[str]:
    """A dependency that is opened and closed around each run."""
    await asyncio.sleep(0)
    yield "open"
    await asyncio.sleep(0)


def _answer(work: Work) -> str:
    return f"{work.message} {'x' * work.answer}"


def _judge(work: Work, attempt: int) -> None:
    if work.snoozes and not current_job().redelivered and attempt == 1 and time.time() % 1 < 0.5:
        raise Snooze(0.05)
    if attempt <= work.fails and not work.overruns:
        if work.retries_later:
            raise RetryLater(0.05)
        raise PlannedFailure(f"as planned, in attempt {attempt}")


async def _on_loop(work: Work) -> str:
    overruns = work.overruns and current_job().attempt <= work.fails
    with program.running(work.message) as attempt:
        if work.nap > 0.1:
            await current_job().progress(0.5, "half")
        await asyncio.sleep(10 * TIMEOUT if overruns else work.nap)
        _judge(work, attempt)
    return _answer(work)


async def _with_connection(work: Work, opened: str = Depends(connection)) -> str:
    assert opened == "open"
    return await _on_loop(work)


def _in_thread(work: Work) -> str:
    with program.running(work.message) as attempt:
        time.sleep(work.nap)
        _judge(work, attempt)
    return _answer(work)


async def _without_result(work: Work) -> None:
    await _on_loop(work)


def in_process(work: Work) -> str:
    return _in_thread(work)


def _policy(random: Random) -> RetryPolicy:
    retries = random.randint(1, 4)
    if random.random() < 0.5:
        return RetryPolicy.fixed(retries, random.choice([0.0, 0.01, 0.1]))
    return RetryPolicy.exponential(retries, 0.02, cap=0.5)


def _declare(random: Random) -> dict[str, Task[Any, Any]]:
    """A few tasks of each kind, with random options; the same ones in every process of this seed."""
    kinds: list[tuple[str, Any, dict[str, Any]]] = [
        ("loop", _on_loop, {}),
        ("loop", _on_loop, {"timeout": TIMEOUT}),
        ("loop", _on_loop, {}),
        ("depends", _with_connection, {}),
        ("silent", _without_result, {}),
        ("thread", _in_thread, {}),
        ("thread", _in_thread, {"timeout": 30}),
        ("process", in_process, {"run_in": "process"}),
        ("process", in_process, {"run_in": "process", "timeout": 30}),
    ]
    tasks: dict[str, Task[Any, Any]] = {}
    for number, (kind, function, options) in enumerate(kinds):
        name = f"{kind}-{number}"
        tasks[name] = app.task(
            name=name,
            queue=random.choice(QUEUES),
            priority=random.choice(["high", "normal", "normal", "low"]),
            retry=_policy(random),
            **options,
        )(function)
    return tasks


TASKS: Final = _declare(program.shared)

#: Seconds between two jobs of a schedule; of one that catches up, else an hour would make thousands.
OFTEN: Final = 0.4
SELDOM: Final = 2.0


@app.every(SELDOM, catch_up="all")
async def every_time() -> None:
    await _tick("every_time", SELDOM, catches_up=True)


@app.every(OFTEN)
async def when_there_is_time() -> None:
    await _tick("when_there_is_time", OFTEN, catches_up=False)


async def _tick(name: str, every: float, *, catches_up: bool) -> None:
    """No producer sends such a job, so its own run reports it."""
    message = f"{name}/{current_job().id}"
    program.invoke(message, Plan(schedule=name, every=every, catches_up=catches_up, attempts=4))
    with program.running(message):
        await asyncio.sleep(0)


class Sender:
    """Chooses jobs, and sends them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._random = program.own

    def choose(self) -> tuple[str, Plan, Call[Any], bool]:
        """A message, its plan, its call, and whether it shall be cancelled."""
        random = self._random
        kind = random.choices(list(TASKS), [1 if "process" in name else 8 for name in TASKS])[0]
        task, message = TASKS[kind], self._program.new_message()
        policy = task.options.retry
        assert isinstance(policy, RetryPolicy)
        attempts = policy.max_retries + 1
        fails = random.choices([0, 1, attempts], [90, 8, 2])[0]
        work = Work(
            message,
            nap=random.choices([0.0, 0.01, 0.3, LONG], [60, 30, 9, 1])[0],
            fails=fails,
            overruns=task.options.timeout == TIMEOUT,
            snoozes=random.random() < 0.02 and kind.startswith(("loop", "thread")),
            retries_later=random.random() < 0.3 and kind.startswith(("loop", "thread")),
            body=random.randbytes(random.choices([0, 100, 100_000], [60, 38, 2])[0]),
            answer=random.choices([0, 50_000], [98, 2])[0],
        )
        if work.overruns:
            work.nap = min(work.nap, 0.3)
        options: dict[str, Any] = {}
        if random.random() < 0.1:
            options["delay"] = round(random.uniform(0.1, 2.0), 3)
        if random.random() < 0.1:
            options["unique_key"] = f"key-{random.randrange(20)}"
        cancels = random.random() < 0.03
        plan = Plan(
            task=kind,
            delay=options.get("delay", 0.0),
            attempts=attempts,
            fails=fails,
            unique=f"{task.options.queue}/{options['unique_key']}" if "unique_key" in options else "",
            result=kind.split("-")[0] != "silent",
        )
        return message, plan, task.call(work).with_(**options), cancels

    async def send_one(self) -> None:
        message, plan, call, cancels = self.choose()
        job = await self._program.send(message, plan, app.enqueue(call))
        if job is not None:
            await self._follow(message, plan, job, cancels)

    async def send_many(self, number: int) -> None:
        chosen = [self.choose() for _ in range(number)]
        for message, plan, _, _ in chosen:
            self._program.invoke(message, plan)
        try:
            jobs = await app.enqueue_many([call for _, _, call, _ in chosen])
        except HeadraceError as error:
            for message, _, _, _ in chosen:
                self._program.failed(message, error)
            return
        for (message, _, _, _), job in zip(chosen, jobs, strict=True):
            self._program.accept(message, job.id, duplicate=job.duplicate)
        several = zip(chosen, jobs, strict=True)
        await asyncio.gather(*(self._follow(each[0], each[1], job, each[3]) for each, job in several))

    async def _follow(self, message: str, plan: Plan, job: Job[Any], cancels: bool) -> None:
        if job.duplicate:
            return
        if cancels:
            await self._program.cancel(message, job)
        elif plan.result and self._random.random() < 0.4:
            await self._program.read_result(message, job)

    def send_from_thread(self) -> None:
        message, plan, call, _ = self.choose()
        self._program.invoke(message, plan)
        try:
            job = app.sync.enqueue(call)
        except HeadraceError as error:
            self._program.failed(message, error)
        else:
            self._program.accept(message, job.id, duplicate=job.duplicate)


async def _steadily(sender: Sender) -> None:
    """Singles that wait for their results, and batches between them."""
    following: set[asyncio.Task[None]] = set()

    def follow(sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(sending)
        following.add(task)
        task.add_done_callback(following.discard)

    async with app:
        while not program.stopped:
            for _ in range(program.own.randint(1, 8)):
                follow(sender.send_one())
            await program.pace(8)
            many = program.own.choice([5, 30, 100])
            follow(sender.send_many(many))
            await program.pace(many)
        await asyncio.gather(*following)


async def _shortly(sender: Sender) -> None:
    await asyncio.gather(*(sender.send_one() for _ in range(5)), sender.send_many(20))


def _in_short_loops(sender: Sender) -> None:
    while not program.stopped:
        asyncio.run(_shortly(sender))
        program.pace_sync(25)


def _from_threads(sender: Sender) -> None:
    def send() -> None:
        while not program.stopped:
            sender.send_from_thread()
            program.pace_sync(3)

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(send) for _ in range(3)]:
            done.result()
    app.sync.close()


def produce(program: Program) -> None:
    """The kind of producer depends on its number: every third one is of the same kind."""
    sender = Sender(program)
    match int(program.recorder.process.rpartition("-")[2]) % 3:
        case 0:
            asyncio.run(_steadily(sender))
        case 1:
            _in_short_loops(sender)
        case _:
            _from_threads(sender)
