"""Slots: a bounded number of long-lived coroutines over one buffer of claims."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, TrailEntry, decode_envelope, encode_envelope
from headrace.core.messages.outcome import Done
from headrace.core.messages.overrides import Overrides
from headrace.engine.running import slots as slots_module
from headrace.engine.running.run import Run
from headrace.engine.running.slots import Slots
from tests.support.waiting import wait_until
from tests.unit.engine.bench import SOURCE, Bench


@pytest.fixture(params=["plain", "heard", "wrapped"])
def bench(bench: Bench, request: pytest.FixtureRequest) -> Bench:
    """Whether anybody listens to the start of jobs or wraps them, slots do the same."""
    if request.param == "plain":
        bench.deafen()
    if request.param == "wrapped":
        bench.registry.use(lambda run, call_next: call_next(run))
    return bench


def make(bench: Bench, size: int) -> Slots:
    return bench.slots(size)


async def test_buffered_claims_are_run_and_finished(bench: Bench) -> None:
    async def task() -> None: ...

    bench.task(task)
    slots = make(bench, 3)
    slots.start()
    slots.put(claims := await bench.claims(count=10))
    assert await slots.until_quiet(10)
    assert [each.claim for each in bench.finished] == claims
    assert {type(each.outcome) for each in bench.finished} == {Done}
    assert slots.finished == 10
    await slots.stop()


async def test_no_more_run_at_once_than_there_are_slots(bench: Bench) -> None:
    gate = asyncio.Event()
    inside = most = 0

    async def task() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1

    bench.task(task)
    slots = make(bench, 3)
    slots.start()
    slots.put(await bench.claims(count=10))
    await wait_until(lambda: inside == 3)
    assert slots.free == 0
    assert len(slots.ready) == 7
    gate.set()
    assert await slots.until_quiet(10)
    assert most == 3
    assert slots.free == 3
    await slots.stop()


async def test_all_slots_are_woken_when_handlers_suspend(bench: Bench) -> None:
    gate = asyncio.Event()
    inside = 0

    async def task() -> None:
        nonlocal inside
        inside += 1
        await gate.wait()

    bench.task(task)
    slots = make(bench, 100)
    slots.start()
    slots.put(await bench.claims(count=100))
    await wait_until(lambda: inside == 100)
    gate.set()
    assert await slots.until_quiet(10)
    await slots.stop()


async def test_handlers_that_never_suspend_let_the_loop_turn_now_and_then(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "STREAK_SECONDS", 0.0)
    turns: list[int] = []
    ran = 0

    async def task() -> None:
        nonlocal ran
        ran += 1

    def turn() -> None:
        turns.append(ran)
        asyncio.get_running_loop().call_soon(turn)

    bench.task(task)
    slots = make(bench, 1)
    slots.start()
    slots.put(await bench.claims(count=1000))
    turn()
    assert await slots.until_quiet(10)
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 2
    await slots.stop()


async def test_a_handler_that_suspends_beside_an_empty_buffer_proves_that_slots_are_free(
    bench: Bench,
) -> None:
    gate = asyncio.Event()
    crowded: list[bool] = []

    async def task() -> None:
        crowded.append(slots.crowded)
        await gate.wait()

    bench.task(task)
    slots = make(bench, 3)
    slots.crowded = True
    slots.start()
    slots.put(await bench.claims(count=3))
    await wait_until(lambda: len(crowded) == 3)
    crowded.append(slots.crowded)
    gate.set()
    assert await slots.until_quiet(10)
    await slots.stop()
    assert crowded == [True, True, True, False]


async def test_suspects_go_before_what_is_buffered(bench: Bench) -> None:
    slots = make(bench, 1)
    innocent = await bench.claims(count=2)
    entry = TrailEntry(1, "crashed", "worker")
    crashed = FRESH.crashed(entry).crashed(entry)
    suspect = Claim(SOURCE, "suspect", b"", 0, claimed_us=0, state=crashed)
    slots.put(innocent)
    slots.put([suspect])
    assert list(slots.ready) == [suspect, *innocent]


async def test_buffered_claims_can_be_taken_back(bench: Bench) -> None:
    slots = make(bench, 1)
    slots.put(claims := await bench.claims(count=3))
    assert slots.take_back(lambda claim: claim is claims[1]) == [claims[1]]
    assert slots.take_back() == [claims[0], claims[2]]
    assert slots.take_back() == []
    assert slots.quiet


async def test_waiting_for_quiet_ends_after_the_time_given(bench: Bench) -> None:
    gate = asyncio.Event()

    async def task() -> None:
        await gate.wait()

    bench.task(task)
    slots = make(bench, 1)
    slots.start()
    slots.put(await bench.claims())
    assert not await slots.until_quiet(0.01)
    gate.set()
    assert await slots.until_quiet(10)
    await slots.stop()


async def test_a_run_that_cannot_even_begin_is_not_taken_for_one_that_runs(bench: Bench) -> None:
    async def task() -> None: ...

    bench.task(task)
    slots = make(bench, 1)
    executor = slots._executor
    executor._deadlines.watch = _refuse  # type: ignore[method-assign]
    slots.start()
    slots.put([with_timeout(claim) for claim in await bench.claims()])
    await wait_until(lambda: bench.finished)
    assert bench.finished[0].failure is not None
    assert bench.finished[0].failure.error == "no timer left"
    assert (executor.running, slots.quiet) == ({}, True)
    await slots.stop()


def _refuse(run: Run, timeout: float) -> None:
    raise ValueError("no timer left")


def with_timeout(claim: Claim) -> Claim:
    envelope = decode_envelope(claim.body)
    overrides = Overrides(timeout=1.0)
    body = encode_envelope(msgspec.structs.replace(envelope, overrides=overrides))
    return msgspec.structs.replace(claim, body=body)


async def test_a_slot_that_is_cancelled_while_idle_is_replaced(bench: Bench) -> None:
    tasks: list[asyncio.Task[object]] = []

    async def task() -> None:
        current = asyncio.current_task()
        assert current is not None
        tasks.append(current)

    bench.task(task)
    slots = make(bench, 1)
    slots.start()
    for runs in range(1, 4):
        slots.put(await bench.claims())
        await wait_until(lambda runs=runs: len(bench.finished) == runs)  # type: ignore[misc]
        tasks[-1].cancel()
        await wait_until(tasks[-1].done)
    await slots.stop()
    assert len(set(tasks)) == 3


async def test_a_wake_up_is_not_wasted_on_a_slot_that_is_gone(bench: Bench) -> None:
    async def task() -> None: ...

    bench.task(task)
    slots = make(bench, 2)
    slots.start()
    await asyncio.sleep(0)
    for slot in slots._tasks:
        slot.cancel()
        break
    slots.put(await bench.claims())
    await wait_until(lambda: bench.finished)
    await slots.stop()


async def test_a_handler_that_will_not_end_does_not_keep_the_slots_from_stopping(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "CANCEL_WAIT", 0.01)
    gate, inside = asyncio.Event(), asyncio.Event()

    async def task() -> None:
        inside.set()
        await gate.wait()

    bench.task(task)
    slots = make(bench, 2)
    slots.start()
    slots.put(await bench.claims())
    await inside.wait()
    await slots.stop()
    gate.set()
    await wait_until(lambda: bench.finished)
