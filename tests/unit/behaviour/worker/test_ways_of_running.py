"""Plain coroutines are run one after the other in one loop, unless a listener or middleware is called at
their start. Both ways lead to the same outcomes."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import App, RetryLater, RetryPolicy, Snooze, Unrecoverable, current_job, signals
from headrace.core.runtime.current_run import under_way
from headrace.engine.running.executor import Executor
from tests.unit.behaviour.work import LONG

log = logging.getLogger("shop")

Way = Literal["plain", "heard", "wrapped"]
Told = dict[str, tuple[object, ...]]

#: Fields of what a job sees that differ in each run.
PASSING = {"seconds", "worker", "waited", "late", "traceback", "dead_letter"}

marker: contextvars.ContextVar[str] = contextvars.ContextVar("marker", default="nobody")
runs: Counter[str] = Counter()
left: list[asyncio.Task[bool]] = []


class Odd(BaseException):
    """Neither an error nor anything that asyncio knows."""


def is_first() -> bool:
    runs[current_job().id] += 1
    return runs[current_job().id] == 1


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def give() -> int:
    return 7


async def give_too_much() -> str:
    return "x" * 2_000_000


async def give_what_cannot_be_sent() -> object:
    return object()


async def give_after_a_turn() -> int:
    await asyncio.sleep(0)
    return 7


async def stay_by_oneself() -> str:
    """Finds nothing of the jobs before it: neither their context nor what they did to the slot."""
    found, task = marker.get(), this_task()
    marker.set(current_job().id)
    return f"{found} {task.cancelling()} {current_job().cancelled}"


async def fail() -> None:
    raise ValueError("no")


async def fail_once() -> int:
    if is_first():
        raise ValueError("not yet")
    return 7


async def fail_after_a_turn() -> None:
    await asyncio.sleep(0)
    raise KeyError("gone")


async def raise_a_cancellation() -> None:
    raise asyncio.CancelledError("mine")


async def raise_an_exit() -> None:
    raise SystemExit(3)


async def raise_what_closes_generators() -> None:
    raise GeneratorExit


async def raise_what_ends_iterators() -> None:
    raise StopIteration(4)


async def raise_something_odd() -> None:
    raise Odd("odd")


async def snooze_once() -> int:
    if is_first():
        raise Snooze(0)
    return 7


async def come_later_once() -> int:
    if is_first():
        raise RetryLater(0)
    return 7


async def give_up() -> None:
    raise Unrecoverable("never")


async def cancel_the_slot() -> int:
    this_task().cancel()
    return 7


async def cancel_the_slot_and_fail() -> None:
    this_task().cancel()
    raise ValueError("no")


async def cancel_the_slot_and_think_better_of_it() -> int:
    this_task().cancel()
    this_task().uncancel()
    return 7


async def cancel_the_slot_and_wait() -> None:
    this_task().cancel()
    await asyncio.sleep(0)


async def run_out_of_time() -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(LONG)


async def write_lines() -> None:
    log.warning("attempt %d", current_job().attempt)
    if is_first():
        raise ValueError("once more")


async def leave_a_task_behind() -> int:
    async def lag() -> bool:
        await asyncio.sleep(0)
        log.warning("nobody's")
        return under_way.get().ended

    left.append(asyncio.get_running_loop().create_task(lag()))
    return 7


DEEDS: tuple[Callable[[], Awaitable[object]], ...] = (
    give,
    give_too_much,
    give_what_cannot_be_sent,
    give_after_a_turn,
    stay_by_oneself,
    fail,
    fail_once,
    fail_after_a_turn,
    raise_a_cancellation,
    raise_an_exit,
    raise_what_closes_generators,
    raise_what_ends_iterators,
    raise_something_odd,
    snooze_once,
    come_later_once,
    give_up,
    cancel_the_slot,
    cancel_the_slot_and_fail,
    cancel_the_slot_and_think_better_of_it,
    cancel_the_slot_and_wait,
    run_out_of_time,
    write_lines,
    leave_a_task_behind,
)


async def pass_on(run: Any, call_next: Any) -> object:
    return await call_next(run)


async def told(
    url: str, way: Way, deeds: Sequence[Callable[[], Awaitable[object]]], *, kept: bool, concurrency: int
) -> Told:
    """What becomes of the jobs, and what is said of them on the way."""
    runs.clear()
    left.clear()
    app = App(url, job_logs=5)
    heard: dict[str, list[object]] = {}

    def hear(signal: signals.JobSignal) -> None:
        facts = msgspec.structs.asdict(signal)
        fields = tuple(fact for fact in facts.items() if fact[0] not in PASSING)
        heard.setdefault(signal.id, []).append((type(signal).__name__, *fields))

    for signal in (signals.JobFailed, signals.JobRetrying, signals.JobDied, signals.JobCancelled):
        app.on(signal)(hear)
    if way == "heard":
        app.on(signals.JobStarted)(lambda signal: None)
    if way == "wrapped":
        app.use(pass_on)
    tasks = {
        deed: app.task(name=deed.__name__, retry=RetryPolicy.fixed(1, 0), result_ttl=60 if kept else 0)(deed)
        for deed in dict.fromkeys(deeds)
    }
    jobs = [
        await app.enqueue(tasks[deed].call().with_(job_id=f"{number}-{deed.__name__}"))
        for number, deed in enumerate(deeds)
    ]
    worker = app.worker(concurrency=concurrency, lease=LONG)
    await worker.run(burst=True)
    assert all(await asyncio.gather(*left)), "a job that is over says so to whatever it left behind"
    became: Told = {"processed": (worker.processed,)}
    for job in jobs:
        info = await job.info()
        became[job.id] = (
            info.status,
            (info.failures, info.crashes),
            (info.error_type, info.error, info.note),
            # On a busy machine a buffered claim gets old, and is handed back.
            [(entry.what, entry.text) for entry in info.trail if entry.what != "released"],
            [(line.attempt, line.level, line.text) for line in info.log],
            await job.result() if kept and info.status == "succeeded" and not info.note else None,
            heard.get(job.id),
        )
    await app.close()
    return became


async def is_the_same_every_way(
    url: Callable[[], str], deeds: Sequence[Callable[[], Awaitable[object]]], *, kept: bool, concurrency: int
) -> None:
    plain = await told(url(), "plain", deeds, kept=kept, concurrency=concurrency)
    assert plain == await told(url(), "heard", deeds, kept=kept, concurrency=concurrency)
    assert plain == await told(url(), "wrapped", deeds, kept=kept, concurrency=concurrency)
    if kept:
        alone = [told for id, told in plain.items() if id.endswith(stay_by_oneself.__name__)]
        assert all(said[5] == "nobody 0 False" for said in alone)


@pytest.fixture(autouse=True)
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("headrace"), "disabled", True)


@pytest.fixture(autouse=True)
def ran_plain(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each run of the loop has finished: without any the tests below would compare nothing."""
    numbers: list[int] = []
    run_plain = Executor.run_plain

    def counted(self: Executor, ready: Any, slot: Any, finished: Any, until: Any) -> Any:
        before = len(finished)
        answer = run_plain(self, ready, slot, finished, until)
        numbers.append(len(finished) - before)
        return answer

    monkeypatch.setattr(Executor, "run_plain", counted)
    return numbers


@pytest.mark.parametrize("concurrency", [1, 10])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not-kept"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_whatever_a_job_does_it_ends_the_same(
    store: str, kept: bool, concurrency: int, tmp_path: Path, ran_plain: list[int]
) -> None:
    files = iter(range(3))
    deeds = [each for deed in DEEDS for each in (deed, stay_by_oneself)]
    await is_the_same_every_way(
        lambda: "memory://" if store == "memory" else f"sqlite:///{tmp_path}/{next(files)}.db",
        deeds,
        kept=kept,
        concurrency=concurrency,
    )
    assert sum(ran_plain) >= len(DEEDS)


@settings(max_examples=25)
@given(
    deeds=st.lists(st.sampled_from(DEEDS), min_size=1, max_size=12),
    kept=st.booleans(),
    concurrency=st.integers(1, 4),
)
def test_in_whatever_order_they_come(
    deeds: list[Callable[[], Awaitable[object]]], kept: bool, concurrency: int
) -> None:
    asyncio.run(is_the_same_every_way(lambda: "memory://", deeds, kept=kept, concurrency=concurrency))
