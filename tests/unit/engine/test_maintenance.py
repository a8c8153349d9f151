"""What a worker does on timers: promoting, reclaiming, pruning, announcing itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

import pytest

from headrace import WorkerInfo, signals
from headrace.core.backend import Promoted, Reclaimed
from headrace.core.clock import microseconds
from headrace.core.errors import BackendUnavailable
from headrace.core.message import Source, Stream
from headrace.engine import maintenance as maintenance_module
from headrace.engine.maintenance import PROMOTE_BATCH, PROMOTE_FALLBACK, RECLAIM_BATCH, Maintenance
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
            describe=lambda: ME,
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
    assert 0.5 * LEASE / 5 <= pause <= 1.5 * LEASE / 5
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


class Time:
    """The wall and the monotonic clock, moved together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._wall, self._monotonic = time.time(), time.monotonic()
        monkeypatch.setattr(time, "time", lambda: self._wall)
        monkeypatch.setattr(time, "monotonic", lambda: self._monotonic)

    def pass_by(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds


@pytest.fixture
def reclaims(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted: list[int] = []
    reclaim = bench.backend.reclaim

    async def watched(sources: Sequence[Source], *, limit: int) -> Reclaimed:
        counted.append(limit)
        return await reclaim(sources, limit=limit)

    monkeypatch.setattr(bench.backend, "reclaim", watched)
    return counted


async def test_after_an_outage_reclaim_waits_one_lease(
    desk: Desk, reclaims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Time(monkeypatch)
    await desk.maintenance._reclaim()
    clock.pass_by(LEASE * 1.5)
    for _ in range(5):
        await desk.maintenance._reclaim()
        clock.pass_by(LEASE / 5 - 0.01)
    assert len(reclaims) == 1
    clock.pass_by(LEASE / 5)
    await desk.maintenance._reclaim()
    assert len(reclaims) == 2


async def test_the_lease_to_wait_begins_when_the_store_is_back(
    bench: Bench, desk: Desk, reclaims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> NoReturn:
        raise BackendUnavailable("away")

    clock = Time(monkeypatch)
    await desk.maintenance._reclaim()
    with monkeypatch.context() as outage:
        outage.setattr(bench.backend, "reclaim", away)
        outage.setattr(bench.backend, "beat", away)
        for _ in range(15):
            clock.pass_by(LEASE / 5)
            with pytest.raises(BackendUnavailable):
                await desk.maintenance._reclaim()
    for _ in range(5):
        await desk.maintenance._reclaim()
        clock.pass_by(LEASE / 5 - 0.01)
    assert len(reclaims) == 1
    clock.pass_by(LEASE / 5)
    await desk.maintenance._reclaim()
    assert len(reclaims) == 2


async def test_a_pause_within_the_lease_is_no_outage(
    desk: Desk, reclaims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Time(monkeypatch)
    for _ in range(5):
        await desk.maintenance._reclaim()
        clock.pass_by(LEASE * 0.9)
    assert len(reclaims) == 5


async def test_a_worker_that_has_just_begun_reclaims_at_once(desk: Desk, reclaims: list[int]) -> None:
    await desk.maintenance._reclaim()
    assert len(reclaims) == 1


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
