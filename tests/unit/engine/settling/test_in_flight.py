"""What is in flight: from the claim to the outcome that the settler writes, each reader has its say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream, group_stream
from headrace.core.messages.outcome import DONE, Dead, DeadReason, Released
from headrace.engine.intake.worker_readers import WorkerReader, WorkerReaders
from headrace.engine.running.batches.bundle import FinishedBundle, bundled
from headrace.engine.running.finished import FinishedRun
from headrace.engine.settling.in_flight import InFlight
from tests.unit.engine.bench import SOURCE, Bench

EVENTS = group_stream("orders", "billing")


class Reader(WorkerReader):
    """Has written what `settles` says, and counts what it hears."""

    def __init__(self, settles: Callable[[FinishedRun], bool] = lambda finished: True) -> None:
        self.consumer = "worker"
        self.heard: list[list[FinishedRun]] = []
        self.woken = self.looked = self.losses = 0
        self._settles = settles

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    def wake(self) -> None:
        self.woken += 1

    def room_made(self) -> None:
        self.due_for_more = False
        self.looked += 1

    def ended(self, finished: list[FinishedRun]) -> list[FinishedRun]:
        self.heard.append(finished)
        return [each for each in finished if self._settles(each)]

    def written(self, finished: FinishedRun) -> None: ...

    def lost(self) -> None:
        self.losses += 1


@pytest.fixture
def readers(bench: Bench) -> WorkerReaders:
    return bench.readers


@pytest.fixture
def in_flight(bench: Bench) -> InFlight:
    return bench.in_flight


def claim(source: Stream = SOURCE) -> Claim:
    return Claim(source, "id", b"", None, claimed_us=1)


def finished(source: Stream = SOURCE) -> FinishedRun:
    return FinishedRun(claim(source), DONE)


async def test_a_reader_decides_what_is_written(readers: WorkerReaders, in_flight: InFlight) -> None:
    kept, settled = finished(), finished()
    readers.add(Reader(lambda each: each is settled), [SOURCE])
    in_flight.finish([kept, settled])
    assert in_flight.unwritten == [settled]
    assert in_flight.arrived.is_set()
    assert not await in_flight.flushed(0)


async def test_what_nothing_is_to_be_written_of_wakes_no_settler(
    readers: WorkerReaders, in_flight: InFlight
) -> None:
    readers.add(Reader(lambda each: False), [SOURCE])
    in_flight.finish([finished()])
    assert not in_flight.arrived.is_set()
    assert await in_flight.flushed(10)


async def test_each_reader_hears_of_its_own_and_the_sequence_stays(
    readers: WorkerReaders, in_flight: InFlight
) -> None:
    jobs, events = Reader(), Reader()
    readers.add(jobs, [SOURCE])
    readers.add(events, [EVENTS])
    stranger = finished(Stream("queue", "of nobody"))
    first, second, third = finished(), finished(EVENTS), finished()
    in_flight.finish([first, second, third, stranger])
    assert (jobs.heard, events.heard) == ([[first], [third]], [[second]])
    assert in_flight.unwritten == [first, second, third, stranger]


async def test_the_parts_of_a_bundle_end_one_by_one(readers: WorkerReaders, in_flight: InFlight) -> None:
    readers.add(reader := Reader(), [EVENTS])
    parts = [finished(EVENTS), finished(EVENTS)]
    [bundle] = bundled([each.claim for each in parts], 2)
    in_flight.finish(FinishedBundle(bundle, parts))
    assert reader.heard == [parts]


async def test_whatever_ends_makes_room_for_readers_that_wait_for_it(
    readers: WorkerReaders, in_flight: InFlight
) -> None:
    waiting, busy = Reader(), Reader()
    waiting.due_for_more = True
    readers.add(waiting, [SOURCE])
    readers.add(busy, [EVENTS])
    in_flight.finish([finished(EVENTS)])
    in_flight.finish([finished(EVENTS)])
    assert (waiting.looked, busy.looked) == (1, 0)


async def test_only_what_is_held_is_handed_back(bench: Bench, in_flight: InFlight) -> None:
    held, of_this_process = claim(), claim(EVENTS)
    in_flight.take([held])
    in_flight.hand_back([of_this_process, held])
    [handed_back] = in_flight.unwritten
    assert handed_back.claim is held
    assert isinstance(handed_back.outcome, Released)


async def test_what_was_handed_back_is_not_settled_by_a_handler_that_ends_too_late(
    readers: WorkerReaders, bench: Bench, in_flight: InFlight
) -> None:
    readers.add(Reader(), [SOURCE])
    held, handed_back = claim(), claim()
    in_flight.take([held, handed_back])
    bench.held.drop(handed_back)
    in_flight.stopping = True
    in_flight.finish([FinishedRun(held, DONE), FinishedRun(handed_back, DONE)])
    assert [each.claim for each in in_flight.unwritten] == [held]


async def test_the_reader_of_a_lost_claim_hears_of_it(
    readers: WorkerReaders, bench: Bench, in_flight: InFlight
) -> None:
    readers.add(reader := Reader(), [EVENTS])
    reader.due_for_more = True
    in_flight.take([lost := claim(EVENTS)])
    in_flight.lose(lost)
    assert lost not in bench.held
    assert (reader.losses, reader.looked) == (1, 1)


async def test_an_outcome_that_the_store_refuses_becomes_a_dead_letter(in_flight: InFlight) -> None:
    refused = in_flight.refuse(finished(), ValueError("too wild"))
    assert isinstance(refused.outcome, Dead)
    assert refused.outcome.reason is DeadReason.REFUSED
    assert refused.failure is refused.outcome.failure


async def test_the_settler_is_waited_for(in_flight: InFlight) -> None:
    in_flight.write([finished()])
    waiting = asyncio.ensure_future(in_flight.flushed(10))
    in_flight.unwritten.clear()
    in_flight.nothing_to_write()
    assert await waiting


async def test_all_readers_are_woken_together(readers: WorkerReaders) -> None:
    first, second = Reader(), Reader()
    readers.add(first, [])
    readers.add(second, [])
    readers.add(second, [EVENTS])
    readers.look_again()
    assert (first.woken, second.woken) == (1, 1)
    assert list(readers) == [first, second]
    assert readers.of(claim(EVENTS)) is second
