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


class ReaderHarness:
    """A reader over slots that are not started, so that what is buffered stays buffered."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *, size: int = 10) -> None:
        self.bench = bench
        self.slots = bench.slots(size)
        self.asked: list[tuple[int, int]] = []
        self.late = 0.0  # seconds that the store seems to take for an answer
        parts = ReaderParts(
            bench.backend, self.slots, bench.held, bench.in_flight, bench.leases, bench.emitter
        )
        self.reader = QueueReader(parts, [SOURCE], consumer="worker")
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
        self.reader._asked_at -= self.late
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
        """Have the reader measure that so many jobs were finished in a second, for long enough."""
        seconds = itertools.count(time.monotonic() + 1.0)
        with monkeypatch.context() as moment:
            moment.setattr(time, "monotonic", lambda: next(seconds))
            for _ in range(20):
                self.slots.finished += round(pace)
                self.reader._measured_pace()


@pytest.fixture
async def harness(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> ReaderHarness:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 0.0)
    # The pace is measured when a test says so, not by how fast the test itself runs.
    monkeypatch.setattr(queue_reader_module, "PACE_WINDOW", 0.9)
    return ReaderHarness(bench, monkeypatch)


async def test_it_claims_as_many_as_there_are_free_slots(harness: ReaderHarness) -> None:
    await harness.bench.append(count=30)
    await harness.reader._step()
    assert harness.asked == [(10, 1)]
    assert len(harness.slots.ready) == 10
    assert len(harness.bench.held) == 10


async def test_what_an_answer_brought_that_took_half_a_lease_is_handed_back(harness: ReaderHarness) -> None:
    await harness.bench.append(count=5)
    harness.late = LEASE / 2
    await harness.reader._step()
    assert (len(harness.slots.ready), len(harness.handed_back)) == (0, 5)
    assert len(harness.bench.held) == 5, "until that is written"
    await harness.bench.append(count=5)
    harness.late = LEASE / 4
    await harness.reader._step()
    assert (len(harness.slots.ready), len(harness.handed_back)) == (5, 5)


async def test_free_slots_are_filled_although_others_have_yet_to_take_what_is_buffered(
    harness: ReaderHarness,
) -> None:
    await harness.buffer(3)
    await harness.bench.append(count=30)
    await harness.reader._step()
    assert harness.asked == [(7, 1)]
    assert len(harness.slots.ready) == 10


async def test_a_claim_that_wants_no_child_work_ends_when_a_child_is_free(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 60.0)
    harness.bench.leases.shortest = 1000.0
    free = 0
    harness.reader._free_children = lambda: free  # type: ignore[method-assign]
    work = msgspec.structs.replace(message("task"), child=True)
    await harness.bench.backend.append(Batch(SOURCE, "another producer", 1, [work]))
    step = asyncio.ensure_future(harness.reader._step())
    await wait_until(lambda: harness.reader.childless)
    harness.reader.room_made()
    assert harness.reader.childless, "there was none"
    free = 1
    harness.reader.room_made()
    await step
    assert not harness.slots.ready
    await harness.reader._step()
    assert [claim.id for claim in harness.slots.ready] == [work.id]


async def test_slow_jobs_are_not_hoarded(harness: ReaderHarness) -> None:
    await harness.bench.append(count=30)
    await harness.reader._step()
    assert await harness.reader._step() == 1.0
    assert harness.reader.due_for_more
    assert len(harness.asked) == 1


async def test_fast_jobs_are_claimed_ahead_for_a_tenth_of_a_second(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_at(500, monkeypatch)
    await harness.reader._step()
    (asked,) = harness.asked
    assert asked[0] == pytest.approx(10 + 50, abs=1)


async def test_for_handlers_that_never_suspend_free_slots_are_not_filled(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.slots.crowded = True
    await harness.bench.append(count=30)
    await harness.reader._step()
    assert harness.asked == [(1, 1)]
    harness.run_at(50, monkeypatch)
    await harness.reader._step()
    assert harness.asked[1][0] == pytest.approx(5, abs=1)
    assert harness.slots.crowded
    assert await harness.reader._step() == LOOK_CROWDED, "a handler may suspend, and nobody says so"


async def test_after_a_while_without_work_free_slots_are_free(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 0.001)
    harness.slots.crowded = True
    await harness.reader._step()
    await harness.reader._step()
    assert [asked for asked, _ in harness.asked] == [1, 10]


async def test_never_more_than_a_thousand_ahead(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_at(1_000_000, monkeypatch)
    await harness.reader._step()
    assert harness.asked[0][0] == 10 + AHEAD_MOST


async def test_the_buffer_is_filled_up_when_half_of_it_is_used(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_at(1000, monkeypatch)
    await harness.buffer(10 + 60)
    await harness.reader._step()
    assert harness.asked == []
    for _ in range(20):
        harness.slots.ready.popleft()
    await harness.reader._step()
    ((asked, _),) = harness.asked
    assert asked == pytest.approx(60, abs=1)


async def test_nothing_is_claimed_while_the_store_does_not_keep_up(harness: ReaderHarness) -> None:
    [claim] = await harness.bench.claims()
    harness.bench.in_flight.write([FinishedRun(claim, DONE)] * UNWRITTEN_MOST)
    harness.asked.clear()
    assert await harness.reader._step() == 1.0
    assert harness.asked == []


async def test_a_suspect_is_taken_only_when_none_is_held(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_at(500, monkeypatch)
    await make_suspects(harness, 3)
    await harness.reader._step()
    await harness.reader._step()
    assert [suspects for _, suspects in harness.asked] == [1, 0]
    (held,) = harness.slots.take_back()
    assert held.suspect
    harness.bench.held.drop(held)
    await harness.reader._step()
    (other,) = harness.slots.take_back()
    assert other.suspect
    assert other.id != held.id


async def test_a_suspect_that_has_run_for_a_lease_does_not_block_the_next(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_suspects(harness, 2)
    await harness.reader._step()
    (held,) = harness.bench.held.suspects_within(LEASE)
    assert harness.reader._patience() <= LEASE - harness.bench.held.age(held)
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + LEASE)
        await harness.reader._step()
    assert [suspects for _, suspects in harness.asked] == [1, 1]
    assert len(harness.slots.take_back()) == 2


async def make_suspects(harness: ReaderHarness, count: int) -> None:
    """Queue so many messages that have crashed twice."""
    await harness.bench.append(count=count)
    for _ in range(2):
        await harness.reader._backend.claim([SOURCE], consumer="ghost", limit=count, suspects=0, wait=0)
        harness.bench.clock.advance(LEASE + 1)
        await harness.bench.backend.reclaim([SOURCE], limit=count)
    harness.asked.clear()


async def test_no_suspect_is_claimed_ahead_of_the_free_slots(
    harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.run_at(10_000, monkeypatch)
    await harness.buffer(10)
    await harness.reader._step()
    assert [suspects for _, suspects in harness.asked] == [0]


async def test_it_notes_when_it_last_got_through(harness: ReaderHarness) -> None:
    assert harness.reader.polled_at == 0.0
    await harness.reader._step()
    assert harness.reader.polled_at == pytest.approx(time.time(), abs=5)


async def test_stopping_wakes_the_claim_that_waits_and_keeps_what_it_brings(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 3600.0)
    harness = ReaderHarness(bench, monkeypatch)
    harness.reader.start()
    await wait_until(lambda: harness.asked)
    await harness.reader.stop()
    assert len(harness.asked) == 1


async def test_room_that_is_made_is_filled_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reader_module, "BLOCK", 3600.0)
    harness = ReaderHarness(bench, monkeypatch, size=1)
    await bench.append(count=2)
    harness.reader.start()
    await wait_until(lambda: harness.reader.due_for_more)
    harness.slots.take_back()
    harness.reader.room_made()
    await wait_until(lambda: len(harness.slots.ready) == 1)
    assert len(harness.asked) == 2
    await harness.reader.stop()
