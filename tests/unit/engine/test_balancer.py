"""Claims that lie here for long are handed back, before a slot begins with one of them."""

from __future__ import annotations

import time

import pytest

from headrace.core.claim import Claim
from headrace.engine.balancer import HOARDED, Balancer
from headrace.engine.slots import Slots
from tests.unit.engine.bench import Bench


async def test_a_process_that_stood_still_begins_nothing_that_it_had_buffered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def task() -> None: ...

    bench.task(task)
    slots = Slots(3, executor=bench.executor(3), finish=bench.finish)
    handed_back: list[Claim] = []
    balancer = Balancer(slots, bench.holdings, hand_back=handed_back.extend, emitter=bench.emitter)
    old = await bench.claims(count=5)
    bench.holdings.take(old)
    slots.put(old)
    balancer.unhoard()
    assert (handed_back, list(slots.ready)) == ([], old)
    # All clocks go on meanwhile; on the event loop nothing happens.
    slots.trusted_until -= 2 * HOARDED
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + 2 * HOARDED)
        assert slots._streak(None) is None  # type: ignore[arg-type]
    assert (handed_back, list(slots.ready), bench.finished) == (old, [], [])
    # What comes then is begun.
    slots.start()
    slots.put(new := await bench.claims(count=5))
    assert await slots.until_quiet(10)
    assert [each.claim for each in bench.finished] == new
    await slots.stop()
