"""Claiming: what the free slots can take, a little ahead by the pace, suspects one at a time."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

import msgspec
import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch, Stream
from headrace.core.messages.outcome import DONE
from headrace.engine.intake import queue_reader as queue_reader_module
from headrace.engine.intake.queue_reader import (
    AHEAD_MOST,
    LOOK_CROWDED,
    UNWRITTEN_MOST,
    QueueReader,
    ReaderParts,
)
from headrace.engine.running.finished import FinishedRun
from tests.support.waiting import wait_until
from tests.unit.engine.bench import LEASE, SOURCE, Bench, message


class Desk:
    """A fetcher over slots that are not started, so that what is buffered stays buffered."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *, size: int = 10) -> None:
        self.bench = bench
        self.slots = bench.slots(size)
        self.asked: list[tuple[int, int]] = []
        self.late = 0.0  # seconds that the store seems to take for an answer
        parts = ReaderParts(
            bench.backend, self.slots, bench.held, bench.in_flight, bench.leases, bench.emitter
        )
        self.fetcher = QueueReader(parts, [SOURCE], consumer="worker")
        self._claim = bench.backend.claim
        monkeypatch.setattr(bench.backend, "claim", self._watched)

    async def _watched(
        self,
        sources: Sequence[Stream],
        *,
        consumer: str,
        limit: int,
        suspects: int,
        children: int | None = None,
        constrained: int | None = None,
        wait: float,
    ) -> list[Claim]:
        self.asked.append((limit, suspects))
        self.fetcher._asked_at -= self.late
        return await self._claim(
            sources, consumer=consumer, limit=limit, suspects=suspects, children=children, wait=wait
        )

    @property
    def handed_back(self) -> list[Claim]:
        return [each.claim for each in self.bench.in_flight.unwritten]

    async def buffer(self, count: int) -> None:
        """Have so many claims lie in the buffer."""
        self.slots.put(await self.bench.claims(count=count))
        self.asked.clear()

    def run_at(self, pace: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the fetcher measure that so many jobs were finished in a second, for long enough."""
        seconds = itertools.count(time.monotonic() + 1.0)
        with monkeypatch.context() as moment:
            moment.setattr(time, "monotonic", lambda: next(seconds))
            for _ in range(20):
                self.slots.finished += round(pace)
                self.fetcher._measured_pace()


@pytest.fixture
async def desk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 0.0)
    # The pace is measured when a test says so, not by how fast the test itself runs.
    monkeypatch.setattr(queue_reader_module, "PACE_WINDOW", 0.9)
    return Desk(bench, monkeypatch)


async def test_it_claims_as_many_as_there_are_free_slots(desk: Desk) -> None:
    await desk.bench.append(count=30)
    await desk.fetcher._step()
    assert desk.asked == [(10, 1)]
    assert len(desk.slots.ready) == 10
    assert len(desk.bench.held) == 10


async def test_what_an_answer_brought_that_took_half_a_lease_is_handed_back(desk: Desk) -> None:
    await desk.bench.append(count=5)
    desk.late = LEASE / 2
    await desk.fetcher._step()
    assert (len(desk.slots.ready), len(desk.handed_back)) == (0, 5)
    assert len(desk.bench.held) == 5, "until that is written"
    await desk.bench.append(count=5)
    desk.late = LEASE / 4
    await desk.fetcher._step()
    assert (len(desk.slots.ready), len(desk.handed_back)) == (5, 5)


async def test_free_slots_are_filled_although_others_have_yet_to_take_what_is_buffered(desk: Desk) -> None:
    await desk.buffer(3)
    await desk.bench.append(count=30)
    await desk.fetcher._step()
    assert desk.asked == [(7, 1)]
    assert len(desk.slots.ready) == 10


async def test_a_claim_that_wants_no_child_work_ends_when_a_child_is_free(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 60.0)
    desk.bench.leases.shortest = 1000.0
    free = 0
    desk.fetcher._free_children = lambda: free  # type: ignore[method-assign]
    work = msgspec.structs.replace(message("task"), child=True)
    await desk.bench.backend.append(Batch(SOURCE, "another producer", 1, [work]))
    step = asyncio.ensure_future(desk.fetcher._step())
    await wait_until(lambda: desk.fetcher.childless)
    desk.fetcher.room_made()
    assert desk.fetcher.childless, "there was none"
    free = 1
    desk.fetcher.room_made()
    await step
    assert not desk.slots.ready
    await desk.fetcher._step()
    assert [claim.id for claim in desk.slots.ready] == [work.id]


async def test_slow_jobs_are_not_hoarded(desk: Desk) -> None:
    await desk.bench.append(count=30)
    await desk.fetcher._step()
    assert await desk.fetcher._step() == 1.0
    assert desk.fetcher.due_for_more
    assert len(desk.asked) == 1


async def test_fast_jobs_are_claimed_ahead_for_a_tenth_of_a_second(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run_at(500, monkeypatch)
    await desk.fetcher._step()
    (asked,) = desk.asked
    assert asked[0] == pytest.approx(10 + 50, abs=1)


async def test_for_handlers_that_never_suspend_free_slots_are_not_filled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.slots.crowded = True
    await desk.bench.append(count=30)
    await desk.fetcher._step()
    assert desk.asked == [(1, 1)]
    desk.run_at(50, monkeypatch)
    await desk.fetcher._step()
    assert desk.asked[1][0] == pytest.approx(5, abs=1)
    assert desk.slots.crowded
    assert await desk.fetcher._step() == LOOK_CROWDED, "a handler may suspend, and nobody says so"


async def test_after_a_while_without_work_free_slots_are_free(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 0.001)
    desk.slots.crowded = True
    await desk.fetcher._step()
    await desk.fetcher._step()
    assert [asked for asked, _ in desk.asked] == [1, 10]


async def test_never_more_than_a_thousand_ahead(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run_at(1_000_000, monkeypatch)
    await desk.fetcher._step()
    assert desk.asked[0][0] == 10 + AHEAD_MOST


async def test_the_buffer_is_filled_up_when_half_of_it_is_used(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run_at(1000, monkeypatch)
    await desk.buffer(10 + 60)
    await desk.fetcher._step()
    assert desk.asked == []
    for _ in range(20):
        desk.slots.ready.popleft()
    await desk.fetcher._step()
    ((asked, _),) = desk.asked
    assert asked == pytest.approx(60, abs=1)


async def test_nothing_is_claimed_while_the_store_does_not_keep_up(desk: Desk) -> None:
    [claim] = await desk.bench.claims()
    desk.bench.in_flight.write([FinishedRun(claim, DONE)] * UNWRITTEN_MOST)
    desk.asked.clear()
    assert await desk.fetcher._step() == 1.0
    assert desk.asked == []


async def test_a_suspect_is_taken_only_when_none_is_held(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run_at(500, monkeypatch)
    await make_suspects(desk, 3)
    await desk.fetcher._step()
    await desk.fetcher._step()
    assert [suspects for _, suspects in desk.asked] == [1, 0]
    (held,) = desk.slots.take_back()
    assert held.suspect
    desk.bench.held.drop(held)
    await desk.fetcher._step()
    (other,) = desk.slots.take_back()
    assert other.suspect
    assert other.id != held.id


async def test_a_suspect_that_has_run_for_a_lease_does_not_block_the_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_suspects(desk, 2)
    await desk.fetcher._step()
    (held,) = desk.bench.held.suspects_within(LEASE)
    assert desk.fetcher._patience() <= LEASE - desk.bench.held.age(held)
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + LEASE)
        await desk.fetcher._step()
    assert [suspects for _, suspects in desk.asked] == [1, 1]
    assert len(desk.slots.take_back()) == 2


async def make_suspects(desk: Desk, count: int) -> None:
    """Queue so many messages that have crashed twice."""
    await desk.bench.append(count=count)
    for _ in range(2):
        await desk.fetcher._backend.claim([SOURCE], consumer="ghost", limit=count, suspects=0, wait=0)
        desk.bench.clock.advance(LEASE + 1)
        await desk.bench.backend.reclaim([SOURCE], limit=count)
    desk.asked.clear()


async def test_no_suspect_is_claimed_ahead_of_the_free_slots(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run_at(10_000, monkeypatch)
    await desk.buffer(10)
    await desk.fetcher._step()
    assert [suspects for _, suspects in desk.asked] == [0]


async def test_it_notes_when_it_last_got_through(desk: Desk) -> None:
    assert desk.fetcher.polled_at == 0.0
    await desk.fetcher._step()
    assert desk.fetcher.polled_at == pytest.approx(time.time(), abs=5)


async def test_stopping_wakes_the_claim_that_waits_and_keeps_what_it_brings(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 3600.0)
    desk = Desk(bench, monkeypatch)
    desk.fetcher.start()
    await wait_until(lambda: desk.asked)
    await desk.fetcher.stop()
    assert len(desk.asked) == 1


async def test_room_that_is_made_is_filled_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 3600.0)
    desk = Desk(bench, monkeypatch, size=1)
    await bench.append(count=2)
    desk.fetcher.start()
    await wait_until(lambda: desk.fetcher.due_for_more)
    desk.slots.take_back()
    desk.fetcher.room_made()
    await wait_until(lambda: len(desk.slots.ready) == 1)
    assert len(desk.asked) == 2
    await desk.fetcher.stop()
