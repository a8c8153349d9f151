"""Claims that lie here for long are handed back, before a slot begins with one of them."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace import App, signals
from headrace.core.messages.claim import Claim
from headrace.core.messages.outcome import Released
from headrace.engine.intake import queue_reader as queue_reader_module
from headrace.engine.running import slots as slots_module
from headrace.engine.running.slots import LONGEST_BUFFERED
from tests.unit.engine.bench import Bench


def handed_back(bench: Bench) -> list[Claim]:
    return [each.claim for each in bench.in_flight.unwritten if isinstance(each.outcome, Released)]


async def test_a_process_that_stood_still_begins_nothing_that_it_had_buffered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def task() -> None: ...

    bench.task(task)
    slots = bench.slots(3)
    old = await bench.claims(count=5)
    bench.held.take(old)
    slots.put(old)
    slots.hand_back_old()
    assert (handed_back(bench), list(slots.ready)) == ([], old)
    # All clocks go on meanwhile; on the event loop nothing happens.
    slots.fresh_until -= 2 * LONGEST_BUFFERED
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + 2 * LONGEST_BUFFERED)
        assert slots._streak(None) is None  # type: ignore[arg-type]
    assert (handed_back(bench), list(slots.ready), bench.finished) == (old, [], [])
    assert slots.crowded, "no slot had anything to do, and yet they lay there"
    # What comes then is begun.
    slots.start()
    slots.put(new := await bench.claims(count=5))
    assert await slots.until_quiet(10)
    assert [each.claim for each in bench.finished] == new
    await slots.stop()


async def test_what_waits_for_slots_that_are_all_taken_says_nothing_of_handlers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, inside = asyncio.Event(), asyncio.Event()

    async def task() -> None:
        inside.set()
        await gate.wait()

    bench.task(task)
    slots = bench.slots(1)
    slots.start()
    running, *waiting = await bench.claims(count=3)
    slots.put([running])
    await inside.wait()
    received = Claim(running.stream, "received", running.body, None, 0)  # only this process has it
    bench.held.take(waiting)
    slots.put([received, *waiting])
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + 2 * LONGEST_BUFFERED)
        slots.hand_back_old()
    assert list(slots.ready) == [received]
    gate.set()
    assert await slots.until_quiet(10)
    await slots.stop()
    assert (handed_back(bench), slots.crowded) == (waiting, False)


async def test_jobs_that_hold_the_loop_are_not_claimed_and_handed_back_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "LONGEST_BUFFERED", 0.05)
    monkeypatch.setattr(queue_reader_module, "AHEAD_SECONDS", 0.02)
    app = App("memory://")
    stopped: list[signals.WorkerStopped] = []
    app.on(signals.WorkerStopped)(stopped.append)

    @app.task(name="compute")
    async def compute() -> None:
        until = time.perf_counter() + 0.005
        while time.perf_counter() < until:
            pass

    await app.enqueue_many([compute.call() for _ in range(200)])
    await app.worker(concurrency=20).run(burst=True)
    # Those that were claimed at first for slots that only seemed to be free; without learning from it 300.
    assert (stopped[0].processed, stopped[0].released < 150) == (200, True)
