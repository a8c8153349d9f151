"""What a worker does on timers: promoting, reclaiming, pruning, announcing itself."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from headrace import WorkerInfo, signals
from headrace.core.backend import Promoted, Reclaimed
from headrace.core.clock import microseconds
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source, Stream
from headrace.engine import maintenance as maintenance_module
from headrace.engine.maintenance import PROMOTE_BATCH, PROMOTE_FALLBACK, RECLAIM_BATCH, Maintenance
from tests.heartbeats import beat
from tests.unit.engine.bench import LEASE, SOURCE, Bench
from tests.waiting import wait_until

ME = WorkerInfo("worker", "host", 1, started_us=1, queues=("work",), concurrency=1)


class Desk:
    def __init__(self, bench: Bench) -> None:
        self.paused: list[frozenset[Stream]] = []
        self.leases: list[Mapping[Stream, int]] = []
        self.maintenance = Maintenance(
            bench.backend,
            [SOURCE],
            lease=LEASE,
            emitter=bench.emitter,
            heartbeat=partial(beat, bench.backend, ME),
            paused=self.paused.append,
            leases=self.leases.append,
        )


@pytest.fixture
async def desk(bench: Bench) -> Desk:
    return Desk(bench)


async def queued(bench: Bench) -> int:
    return (await bench.backend.counts(SOURCE.stream)).queued


# --- promotion ----------------------------------------------------------------------------------------------


async def test_with_nothing_scheduled_promotion_sleeps_for_its_fallback(desk: Desk) -> None:
    assert await desk.maintenance._promote() == PROMOTE_FALLBACK


async def test_promotion_sleeps_until_the_next_is_due(bench: Bench, desk: Desk) -> None:
    await bench.append(delay=2)
    pause = await desk.maintenance._promote()
    assert pause == pytest.approx(2, abs=0.5)
    assert await queued(bench) == 0
    bench.clock.advance(2)
    await desk.maintenance._promote()
    assert await queued(bench) == 1


async def test_what_is_due_much_later_is_looked_at_after_the_fallback(bench: Bench, desk: Desk) -> None:
    await bench.append(delay=3600)
    assert await desk.maintenance._promote() == PROMOTE_FALLBACK


async def test_a_full_batch_is_followed_by_the_next_at_once(bench: Bench, desk: Desk) -> None:
    await bench.append(count=PROMOTE_BATCH + 1, delay=1)
    bench.clock.advance(1)
    assert await desk.maintenance._promote() is None
    assert await desk.maintenance._promote() == PROMOTE_FALLBACK
    assert await queued(bench) == PROMOTE_BATCH + 1


async def test_something_due_sooner_ends_the_sleep(
    bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_module, "PROMOTE_FALLBACK", 3600.0)
    promote, looks = bench.backend.promote, 0

    async def watched(sources: Sequence[Source], *, limit: int) -> Promoted:
        nonlocal looks
        looks += 1
        return await promote(sources, limit=limit)

    monkeypatch.setattr(bench.backend, "promote", watched)
    desk.maintenance.start()
    await wait_until(lambda: looks == 1)
    await bench.append(delay=1)
    bench.clock.advance(1)
    desk.maintenance.something_is_due()
    await wait_until(lambda: looks == 2)
    await desk.maintenance.stop()
    assert await queued(bench) == 1


# --- reclaim ------------------------------------------------------------------------------------------------


async def test_a_lost_job_is_recovered_and_announced(bench: Bench, desk: Desk) -> None:
    (claim,) = await bench.claims()
    bench.clock.advance(LEASE + 1)
    pause = await desk.maintenance._reclaim()
    assert pause is not None
    assert pause == pytest.approx(LEASE / 5, rel=0.1)
    assert bench.heard == [signals.JobRecovered(claim.id, "task", "work", crashes=1, worker="worker")]


async def test_many_are_recovered_in_steps_until_the_scan_has_come_round(bench: Bench, desk: Desk) -> None:
    await bench.claims(count=RECLAIM_BATCH + 1)
    bench.clock.advance(LEASE + 1)
    assert await desk.maintenance._reclaim() is None
    assert len(bench.heard) == RECLAIM_BATCH
    assert await desk.maintenance._reclaim() is not None
    assert len(bench.heard) == RECLAIM_BATCH + 1


async def test_the_third_crash_is_announced_as_a_death(bench: Bench, desk: Desk) -> None:
    await bench.append()
    for _ in range(3):
        await bench.backend.claim([SOURCE], consumer="worker", limit=1, suspects=1, wait=0)
        bench.clock.advance(LEASE + 1)
        await desk.maintenance._reclaim()
    died = bench.heard[-1]
    assert isinstance(died, signals.JobDied)
    assert (died.reason, died.attempt) == ("crashed", 3)
    assert [type(each) for each in bench.heard] == [
        signals.JobRecovered,
        signals.JobRecovered,
        signals.JobDied,
    ]


class Outage:
    """The store as the reclaimer finds it, and a clock for the time between."""

    def __init__(self, bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = False
        self.told: list[bool] = []  # of each call that got through: whether it came after an outage
        self._now_us = 0
        self._maintenance = desk.maintenance
        self._reclaim = bench.backend.reclaim
        monkeypatch.setattr(desk.maintenance, "_elapsed_us", lambda: self._now_us)
        monkeypatch.setattr(bench.backend, "reclaim", self._watched)

    async def _watched(
        self, sources: Sequence[Source], *, limit: int, every_us: int, after_outage: bool
    ) -> Reclaimed:
        if self.away:
            raise BackendUnavailable("away")
        self.told.append(after_outage)
        return await self._reclaim(sources, limit=limit, every_us=every_us, after_outage=after_outage)

    async def look(self, *, after: float) -> None:
        self._now_us += microseconds(after)
        with contextlib.suppress(BackendUnavailable):
            await self._maintenance._reclaim()


@pytest.fixture
async def outage(bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Outage:
    return Outage(bench, desk, monkeypatch)


async def test_after_half_a_lease_of_refusals_the_store_is_told_of_an_outage_once(outage: Outage) -> None:
    await outage.look(after=0)
    outage.away = True
    for _ in range(5):
        await outage.look(after=LEASE / 10)
    outage.away = False
    await outage.look(after=0)
    await outage.look(after=LEASE / 5)
    assert outage.told == [False, True, False]


async def test_a_gap_of_more_than_a_lease_is_an_outage_whatever_made_it(outage: Outage) -> None:
    await outage.look(after=0)
    await outage.look(after=LEASE + 1)
    assert outage.told == [False, True]


async def test_neither_a_few_refusals_nor_a_pause_within_the_lease_are_an_outage(outage: Outage) -> None:
    await outage.look(after=0)
    outage.away = True
    await outage.look(after=LEASE / 5)
    outage.away = False
    await outage.look(after=LEASE / 5)
    await outage.look(after=LEASE * 0.7)
    assert outage.told == [False, False, False]


async def test_a_worker_that_has_just_begun_knows_of_no_outage(outage: Outage) -> None:
    await outage.look(after=LEASE * 10)
    assert outage.told == [False]


async def test_the_step_of_a_clock_is_announced(bench: Bench, desk: Desk) -> None:
    await desk.maintenance._reclaim()
    bench.clock.step(3600)
    await desk.maintenance._reclaim()
    bench.clock.step(-3600)
    await desk.maintenance._reclaim()
    forward, back = bench.heard
    assert isinstance(forward, signals.ClockStepped)
    assert forward.seconds == pytest.approx(3600, abs=1)
    assert isinstance(back, signals.ClockStepped)
    assert back.seconds == pytest.approx(-3600, abs=1)


# --- the rest -----------------------------------------------------------------------------------------------


async def test_a_worker_announces_itself_and_hears_what_is_paused(bench: Bench, desk: Desk) -> None:
    await bench.backend.pause(SOURCE.stream, paused=True)
    pause = await desk.maintenance._beat()
    assert pause is not None
    assert pause < 3
    assert await bench.backend.workers() == [ME]
    assert desk.paused == [frozenset({SOURCE.stream})]
    assert desk.leases == [{SOURCE.stream: microseconds(LEASE)}]


async def test_after_another_lease_reclaim_goes_by_that(desk: Desk) -> None:
    desk.maintenance.follow(LEASE / 10)
    pause = await desk.maintenance._reclaim()
    assert pause is not None
    assert pause <= LEASE / 10 / 5 * 1.5


async def test_pruning_goes_on_while_there_is_much_to_prune(
    bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned = [1000, 5]

    async def prune(*, limit: int) -> int:
        return pruned.pop(0)

    monkeypatch.setattr(bench.backend, "prune", prune)
    assert await desk.maintenance._prune() is None
    assert await desk.maintenance._prune() is not None
