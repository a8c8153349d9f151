"""What becomes of buffered claims when a stream is paused or a lease is lost."""

from __future__ import annotations

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.records.answers import Renewal
from headrace.engine.running.batches.bundle import bundled, parts_of
from headrace.engine.running.slots import Slots
from headrace.engine.settling.claim_control import ClaimControl
from tests.unit.engine.bench import SOURCE, Bench

from .test_in_flight import Reader


@pytest.fixture
async def slots(bench: Bench) -> Slots:
    return bench.slots(1)


@pytest.fixture
async def control(bench: Bench, slots: Slots) -> ClaimControl:
    return ClaimControl(
        "worker", slots=slots, held=bench.held, in_flight=bench.in_flight, emitter=bench.emitter
    )


@pytest.fixture
async def reader(bench: Bench) -> Reader:
    bench.readers.add(reader := Reader(), [SOURCE])
    return reader


async def test_a_pause_hands_back_what_is_held_and_leaves_what_only_this_process_has(
    bench: Bench, slots: Slots, control: ClaimControl
) -> None:
    [held] = await bench.claims()
    received = Claim(SOURCE, "received", held.body, None, 0)
    bench.held.take([held])
    slots.put([received, held])
    control.handle_pauses(frozenset({SOURCE}))
    assert list(slots.ready) == [received]
    assert [each.claim for each in bench.in_flight.unwritten] == [held]


async def test_a_buffered_claim_whose_lease_is_lost_is_dropped_and_its_reader_hears_of_it(
    bench: Bench, slots: Slots, control: ClaimControl, reader: Reader
) -> None:
    [claim] = await bench.claims()
    bench.in_flight.take([claim])
    slots.put([claim])
    control.handle_renewals([(claim, Renewal.LOST)])
    assert not slots.ready
    assert claim not in bench.held
    assert reader.losses == 1


async def test_a_lost_claim_is_taken_out_of_a_buffered_bundle(
    bench: Bench, slots: Slots, control: ClaimControl, reader: Reader
) -> None:
    lost, kept = claims = await bench.claims(count=2)
    bench.in_flight.take(claims)
    slots.put(bundled(claims, 2))
    control.handle_renewals([(lost, Renewal.LOST)])
    assert [parts_of(each) for each in slots.ready] == [(kept,)]
    assert (lost in bench.held, kept in bench.held, reader.losses) == (False, True, 1)
