"""What a worker does on timers: promoting, reclaiming, pruning, announcing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace import signals
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.records.answers import Reclaimed
from headrace.core.runtime.clock import microseconds
from headrace.engine.running.job_limits import JobLimits
from headrace.engine.settling.claim_control import ClaimControl
from headrace.engine.upkeep.heartbeat import Heartbeat, WorkerDescription
from headrace.engine.upkeep.process_pulse import ProcessPulse
from headrace.engine.upkeep.promotion import PROMOTE_BATCH, PROMOTE_FALLBACK, Promotion
from headrace.engine.upkeep.pruning import Pruning
from headrace.engine.upkeep.recovery import RECLAIM_BATCH, LeaseRecovery
from tests.support.movable_loop import idle, pause_after, running
from tests.support.waiting import wait_until
from tests.unit.engine.bench import LEASE, SOURCE, Bench


class DutyHarness:
    def __init__(self, bench: Bench) -> None:
        self._promote, self._reclaim = bench.store.watch("promote"), bench.store.watch("reclaim")
        self.promotion = Promotion(bench.backend, bench.served, emitter=bench.emitter)
        self.pulse = ProcessPulse(bench.leases)
        self.recovery = LeaseRecovery(
            bench.backend, bench.served, leases=bench.leases, emitter=bench.emitter, pulse=self.pulse
        )
        self.pruning = Pruning(bench.backend, emitter=bench.emitter)
        self.slots = bench.slots(1)
        self.heartbeat = Heartbeat(
            bench.backend,
            WorkerDescription("worker", bench.options(1), bench.served, bench.readers, bench.held, ()),
            leases=bench.leases,
            claim_control=ClaimControl(
                "worker",
                slots=self.slots,
                held=bench.held,
                in_flight=bench.in_flight,
                emitter=bench.emitter,
            ),
            limits=JobLimits(bench.registry, ()),
            emitter=bench.emitter,
        )

    def promotions(self) -> int:
        return len(self._promote.made)

    def recoveries(self) -> int:
        return len(self._reclaim.made)

    async def check_leases(self) -> None:
        """Have recovery check once, while it does nothing else."""
        self.recovery.start()
        await idle()
        await self.recovery.stop()


def about(seconds: float) -> object:
    return pytest.approx(seconds, abs=0.2)


@pytest.fixture
async def harness(bench: Bench) -> DutyHarness:
    return DutyHarness(bench)


async def queued(bench: Bench) -> int:
    return (await bench.backend.counts(SOURCE)).queued


# --- promotion ----------------------------------------------------------------------------------------------


async def test_with_nothing_scheduled_promotion_sleeps_for_its_fallback(harness: DutyHarness) -> None:
    async with running(harness.promotion):
        assert await pause_after(harness.promotions) == about(PROMOTE_FALLBACK)


async def test_promotion_sleeps_until_the_next_is_due(bench: Bench, harness: DutyHarness) -> None:
    await bench.append(delay=4)
    async with running(harness.promotion):
        pause = await pause_after(harness.promotions, meanwhile=lambda: bench.clock.advance(4))
        assert 1 < pause <= 4.1, "less than the fallback; a little of it has passed before it was asked for"
        await wait_until(lambda: queued(bench))


async def test_what_is_due_much_later_is_looked_at_after_the_fallback(
    bench: Bench, harness: DutyHarness
) -> None:
    await bench.append(delay=3600)
    async with running(harness.promotion):
        assert await pause_after(harness.promotions) == about(PROMOTE_FALLBACK)


async def test_a_full_batch_is_followed_by_the_next_at_once(bench: Bench, harness: DutyHarness) -> None:
    await bench.append(count=PROMOTE_BATCH + 1, delay=1)
    bench.clock.advance(1)
    async with running(harness.promotion):
        assert await pause_after(harness.promotions, 2) == about(PROMOTE_FALLBACK)
    assert await queued(bench) == PROMOTE_BATCH + 1


async def test_something_due_sooner_ends_the_sleep(bench: Bench, harness: DutyHarness) -> None:
    async with running(harness.promotion):
        await wait_until(lambda: harness.promotions() == 1)
        await bench.append(delay=1)
        bench.clock.advance(1)
        harness.promotion.something_is_due()
        await wait_until(lambda: harness.promotions() == 2)
    assert await queued(bench) == 1


# --- reclaim ------------------------------------------------------------------------------------------------


async def test_a_lost_job_is_recovered_and_announced(bench: Bench, harness: DutyHarness) -> None:
    (claim,) = await bench.claims()
    bench.clock.advance(LEASE + 1)
    async with running(harness.recovery):
        assert await pause_after(harness.recoveries) == pytest.approx(LEASE / 5, rel=0.1)
    assert bench.heard == [signals.JobRecovered(claim.id, "task", "work", crashes=1, worker="worker")]


async def test_many_are_recovered_in_steps_until_the_scan_has_come_round(
    bench: Bench, harness: DutyHarness
) -> None:
    await bench.claims(count=RECLAIM_BATCH + 1)
    bench.clock.advance(LEASE + 1)
    async with running(harness.recovery):
        assert await pause_after(harness.recoveries, 2) == pytest.approx(LEASE / 5, rel=0.1)
    assert len(bench.heard) == RECLAIM_BATCH + 1


async def test_the_third_crash_is_announced_as_a_death(bench: Bench, harness: DutyHarness) -> None:
    await bench.append()
    for _ in range(3):
        await bench.backend.claim([SOURCE], consumer="worker", limit=1, suspects=1, wait=0)
        bench.clock.advance(LEASE + 1)
        await harness.check_leases()
    died = bench.heard[-1]
    assert isinstance(died, signals.JobDied)
    assert (died.reason, died.attempt) == ("crashed", 3)
    assert [type(each) for each in bench.heard] == [
        signals.JobRecovered,
        signals.JobRecovered,
        signals.JobDied,
    ]


class Outage:
    """The store as recovery finds it, and a clock for the time between."""

    def __init__(self, bench: Bench, harness: DutyHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = False
        self.told: list[bool] = []  # of each call that got through: whether it came after an outage
        self._now_us = 0
        self._desk = harness
        self._reclaim = bench.store.reclaim
        self._pulse = harness.pulse
        for clocked in (harness.recovery, harness.pulse):
            monkeypatch.setattr(clocked, "_elapsed_us", lambda: self._now_us)
        bench.store.intercept("reclaim", self._watched)

    async def _watched(self, sources: Sequence[Stream], *, after_outage: bool, **options: Any) -> Reclaimed:
        if self.away:
            raise BackendUnavailable("away")
        self.told.append(after_outage)
        return await self._reclaim(sources, after_outage=after_outage, **options)

    def beat(self, *, after: float) -> None:
        """A round of the lease renewal, in its thread."""
        self._now_us += microseconds(after)
        self._pulse.note()

    async def look(self, *, after: float) -> None:
        self._now_us += microseconds(after)
        await self._desk.check_leases()


@pytest.fixture
async def outage(bench: Bench, harness: DutyHarness, monkeypatch: pytest.MonkeyPatch) -> Outage:
    return Outage(bench, harness, monkeypatch)


async def test_after_half_a_lease_of_refusals_the_store_is_told_of_an_outage_once(outage: Outage) -> None:
    await outage.look(after=0)
    outage.away = True
    for _ in range(5):
        await outage.look(after=LEASE / 10)
    outage.away = False
    await outage.look(after=0)
    await outage.look(after=LEASE / 5)
    assert outage.told == [False, True, False]


async def test_a_blocked_event_loop_is_no_outage(outage: Outage) -> None:
    """The thread that renews leases went on meanwhile: the process did not stand still."""
    outage.beat(after=0)
    await outage.look(after=LEASE / 5)
    for _ in range(10):
        outage.beat(after=LEASE / 5)
    await outage.look(after=0)
    assert outage.told == [False, False]


async def test_a_process_that_stood_still_comes_from_an_outage_also_when_its_threads_go_on_first(
    outage: Outage,
) -> None:
    outage.beat(after=0)
    await outage.look(after=0)
    outage.beat(after=LEASE + 1)
    outage.beat(after=0)
    await outage.look(after=0)
    assert outage.told == [False, True]


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


async def test_the_step_of_a_clock_is_announced(bench: Bench, harness: DutyHarness) -> None:
    await harness.check_leases()
    bench.clock.step(3600)
    await harness.check_leases()
    bench.clock.step(-3600)
    await harness.check_leases()
    forward, back = bench.heard
    assert isinstance(forward, signals.ClockStepped)
    assert forward.seconds == pytest.approx(3600, abs=1)
    assert isinstance(back, signals.ClockStepped)
    assert back.seconds == pytest.approx(-3600, abs=1)


# --- the rest -----------------------------------------------------------------------------------------------


async def test_a_worker_announces_itself_and_hears_what_is_paused(bench: Bench, harness: DutyHarness) -> None:
    bench.in_flight.take(buffered := await bench.claims())
    harness.slots.put(buffered)
    await bench.backend.pause(SOURCE, paused=True)
    await bench.backend.declare_stream(SOURCE, microseconds(LEASE / 2))
    beats = bench.store.watch("heartbeat")
    async with running(harness.heartbeat):
        assert await pause_after(lambda: len(beats.made)) < 3
    [worker] = await bench.backend.workers()
    assert (worker.consumer, worker.queues, worker.concurrency) == ("worker", ("work",), 1)
    assert not harness.slots.ready
    assert [each.claim for each in bench.in_flight.unwritten] == buffered
    assert bench.leases.shortest == LEASE / 2


async def test_after_another_lease_reclaim_goes_by_that(bench: Bench, harness: DutyHarness) -> None:
    bench.leases.changed({SOURCE: microseconds(LEASE / 10)})
    async with running(harness.recovery):
        assert await pause_after(harness.recoveries) <= LEASE / 10 / 5 * 1.5


async def test_pruning_goes_on_while_there_is_much_to_prune(bench: Bench, harness: DutyHarness) -> None:
    answers, asked = [1000, 5], 0

    async def prune(*, limit: int) -> int:
        nonlocal asked
        asked += 1
        return answers.pop(0) if answers else 0

    bench.store.intercept("prune", prune)
    async with running(harness.pruning):
        assert await pause_after(lambda: asked, 2) > 1
