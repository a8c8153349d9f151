"""Firing schedules: when a worker looks, what it fires, and that another worker fires nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import signals
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.records.record import Record, WorkerInfo
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule import CatchUp, Schedule, Template, Timing, encode_schedule, message_at
from headrace.core.schedules.schedule_record import (
    ScheduleRecord,
    ScheduleSwap,
    Swapped,
    add,
    establish,
    pause,
    resume,
)
from headrace.engine.upkeep import schedule_precedence
from headrace.engine.upkeep.schedule_runner import BEATEN, LOOK, LOOK_IDLE, ScheduleRunner
from headrace.testing.contract.kit.heartbeats import beat
from tests.support.movable_loop import idle, pause_after, running
from tests.unit.engine.bench import SOURCE, Bench

STREAM = SOURCE


def schedule(timing: Timing, name: str = "tidy", queue: str = "work") -> Schedule:
    return Schedule(name, queue, timing, Template("tidy", b"\x91\x90"))


EVERY_TEN = schedule(Timing(every_us=10 * SECOND))


def ticker(bench: Bench, *declared: Schedule) -> ScheduleRunner:
    return ScheduleRunner(bench.backend, [SOURCE], declared, emitter=bench.emitter)


async def settled(ticker: ScheduleRunner) -> None:
    """Look until there is nothing to do."""
    ticker.start()
    for _ in range(20):  # after each firing it looks again
        await idle()
    await ticker.stop()


async def pause_of(bench: Bench, ticker: ScheduleRunner) -> float:
    """Look until there is nothing to do; the seconds until it looks again."""
    looks = bench.store.watch("schedules")
    async with running(ticker):
        return await pause_after(lambda: len(looks.made))


def about(seconds: float) -> object:
    return pytest.approx(seconds, abs=0.2)


async def begun(bench: Bench, *declared: Schedule) -> ScheduleRunner:
    """A ticker that has seen its schedules."""
    begun = ticker(bench, *declared)
    await settled(begun)
    return begun


async def jobs(bench: Bench) -> list[Record]:
    return list(await bench.backend.messages(STREAM, limit=2000))


async def record(bench: Bench) -> ScheduleRecord:
    [found] = (await bench.backend.schedules([STREAM])).records
    return found


async def test_without_schedules_it_looks_rarely(bench: Bench) -> None:
    assert await pause_of(bench, ticker(bench)) == about(LOOK_IDLE)


async def test_it_sleeps_until_an_interval_has_passed(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=4 * SECOND)))
    assert 1 < await pause_of(bench, tick) <= 4.1, "less than between two looks"


async def test_an_interval_fires_first_after_one_interval_and_then_at_a_fixed_rate(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=20 * SECOND)))
    first = (await record(bench)).last_us
    await settled(tick)
    assert await jobs(bench) == []
    for number in (1, 2, 3):
        bench.clock.advance(20)
        await settled(tick)
        assert (await record(bench)).last_us == first + number * 20 * SECOND
        assert len(await jobs(bench)) == number


async def test_it_looks_again_before_a_moment_that_is_far_away(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=3600 * SECOND)))
    assert await pause_of(bench, tick) == about(LOOK)


async def test_a_cron_expression(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(cron="0 9 * * *", tz="Europe/London")))
    for _ in range(3):
        bench.clock.advance(86400)
        now = datetime.fromtimestamp(bench.clock.now_us() / SECOND, UTC)
        nine = now.replace(hour=10, minute=0, second=0)  # either 9:00 or 10:00 there: wait for both
        bench.clock.advance(max(0.0, (nine - now).total_seconds()))
        await settled(tick)
    fired = (await record(bench)).last_us
    assert datetime.fromtimestamp(fired / SECOND, UTC).hour in (8, 9)


async def test_schedules_of_queues_that_the_worker_does_not_serve_are_left_alone(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=SECOND), queue="elsewhere"))
    bench.clock.advance(10)
    await settled(tick)
    assert (await bench.backend.schedules([STREAM, Stream("queue", "elsewhere")])).records == ()


async def test_two_workers_fire_a_moment_once(bench: Bench) -> None:
    rare = schedule(Timing(every_us=100 * SECOND))
    one, other = await begun(bench, rare), await begun(bench, rare)
    for number in range(1, 6):
        bench.clock.advance(100)
        await settled(one)
        await settled(other)
        assert len(await jobs(bench)) == number


async def test_one_that_was_slower_looks_again_soon(bench: Bench) -> None:
    one, other = await begun(bench, EVERY_TEN), await begun(bench, EVERY_TEN)
    bench.clock.advance(10)
    seen = await bench.backend.schedules([STREAM])
    await settled(one)

    async def schedules_as_they_were(streams: Sequence[Stream]) -> object:
        return seen

    bench.store.intercept("schedules", schedules_as_they_were)
    assert await pause_of(bench, other) == about(BEATEN)
    assert len(await jobs(bench)) == 1


async def test_the_clock_of_the_worker_makes_no_difference(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = await begun(bench, EVERY_TEN)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert await pause_of(bench, tick) == about(LOOK)
    assert await jobs(bench) == []


# --- after downtime -----------------------------------------------------------------------------------------


async def test_missed_moments_are_skipped(bench: Bench) -> None:
    tick = await begun(bench, EVERY_TEN)
    first = (await record(bench)).last_us
    bench.clock.advance(1006)
    await settled(tick)
    assert await jobs(bench) == []
    skipped = await record(bench)
    assert (skipped.last_us, skipped.fired_us) == (first + 1000 * SECOND, 0)
    bench.clock.advance(5)
    await settled(tick)
    assert len(await jobs(bench)) == 1


async def test_once_for_all_that_was_missed(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=10 * SECOND, catch_up="one")))
    bench.clock.advance(1006)
    await settled(tick)
    assert len(await jobs(bench)) == 1


async def test_each_that_was_missed_in_order(bench: Bench) -> None:
    each = schedule(Timing(every_us=10 * SECOND, catch_up="all"))
    tick = await begun(bench, each)
    first = (await record(bench)).last_us
    bench.clock.advance(2505)
    await settled(tick)
    expected = [message_at(each, first + n * 10 * SECOND, 0).id for n in range(1, 251)]
    assert [job.id for job in reversed(await jobs(bench))] == expected  # the newest is listed first


# --- jitter, pause, dynamic ones ----------------------------------------------------------------------------


async def test_jitter_delays_the_job_and_not_the_schedule(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=10 * SECOND, jitter_us=3600 * SECOND)))
    first = (await record(bench)).last_us
    bench.clock.advance(10)
    await settled(tick)
    [job] = await jobs(bench)
    assert job.status == "scheduled"
    assert first + 10 * SECOND < job.due_us <= first + 3610 * SECOND
    assert (await record(bench)).last_us == first + 10 * SECOND


async def test_a_paused_schedule_rests_and_goes_on_afterwards(bench: Bench) -> None:
    tick = await begun(bench, schedule(Timing(every_us=10 * SECOND, catch_up="all")))
    await bench.backend.swap_schedules([pause(await record(bench))])
    bench.clock.advance(100)
    await settled(tick)
    await bench.backend.swap_schedules([resume(await record(bench))])
    await settled(tick)
    assert await jobs(bench) == []
    bench.clock.advance(10)
    await settled(tick)
    assert len(await jobs(bench)) == 1


async def test_a_dynamic_schedule_is_fired_by_any_worker(bench: Bench) -> None:
    tick = await begun(bench)
    await bench.backend.swap_schedules([add(STREAM, "tidy", encode_schedule(EVERY_TEN))])
    bench.clock.advance(10)
    await settled(tick)
    [job] = await jobs(bench)
    assert job.task == "tidy"


async def test_what_another_version_wrote_or_only_other_code_declares_is_left_alone(bench: Bench) -> None:
    others = [add(STREAM, "newer", b"\xc1"), establish(STREAM, "of other code")]
    await bench.backend.swap_schedules(others)
    bench.clock.advance(100)
    assert await pause_of(bench, ticker(bench)) == about(LOOK)
    assert await jobs(bench) == []


async def test_one_that_cannot_be_computed_here_does_not_stop_the_others(bench: Bench) -> None:
    bad = schedule(Timing(cron="* * * * *", tz="Mars/Olympus"), name="bad")
    await bench.backend.swap_schedules([add(STREAM, "bad", encode_schedule(bad))])
    tick = await begun(bench, EVERY_TEN)
    bench.clock.advance(10)
    await settled(tick)
    assert len(await jobs(bench)) == 1
    errors = [signal for signal in bench.heard if isinstance(signal, signals.BackendError)]
    assert "Mars/Olympus" in errors[0].error


async def test_many_are_fired_at_once_and_those_that_an_error_left_out_are_fired_next(
    bench: Bench,
) -> None:
    many = [schedule(Timing(every_us=10 * SECOND), name=f"tidy-{n}") for n in range(50)]
    tick = await begun(bench, *many)
    bench.clock.advance(10)
    before = bench.store.swap_schedules

    async def one_fails(swaps: Sequence[ScheduleSwap]) -> list[Swapped]:
        assert len(swaps) == 50
        await before([swap for swap in swaps if swap.name != "tidy-7"])
        raise BackendUnavailable("away for a moment")

    bench.store.intercept("swap_schedules", one_fails)
    await settled(tick)
    assert len(await jobs(bench)) == 49
    bench.store.restore("swap_schedules")
    await settled(tick)
    assert len(await jobs(bench)) == 50


async def test_what_is_fired_is_announced(bench: Bench) -> None:
    tick = await begun(bench, EVERY_TEN)
    bench.clock.advance(10)
    await settled(tick)
    [job] = await jobs(bench)
    assert signals.JobEnqueued(job.id, "tidy", "work") in bench.heard


async def test_an_interval_goes_on_from_now_when_the_clock_was_set_back(bench: Bench) -> None:
    ticker = await begun(bench, EVERY_TEN)
    bench.clock.advance(10.1)
    await settled(ticker)
    assert len(await jobs(bench)) == 1
    bench.clock.step(-3600)
    assert await pause_of(bench, ticker) <= 10
    bench.clock.advance(10.1)
    await settled(ticker)
    assert len(await jobs(bench)) == 2


# --- another timetable -----------------------------------------------------------------------------------


def hourly(minute: int, catch_up: CatchUp = "all", **others: Any) -> Schedule:
    return schedule(Timing(cron=f"{minute} * * * *", catch_up=catch_up, **others))


async def fired(bench: Bench) -> int:
    """How many jobs there are since it was last asked."""
    return await bench.backend.purge(STREAM, ttl_us=0, limit=2000)


async def alive(bench: Bench, worker: ScheduleRunner, name: str = "worker-1") -> None:
    info = WorkerInfo(name, "host", 1, 0, ("work",), 1, timings=worker.timings)
    await beat(bench.backend, info)


@pytest.mark.parametrize(
    "changed", [schedule(Timing(cron="* * * * *", catch_up="all")), hourly(0, tz="Europe/London"), EVERY_TEN]
)
async def test_a_definition_that_changed_starts_from_now(bench: Bench, changed: Schedule) -> None:
    await begun(bench, hourly(0))
    bench.clock.advance(100_000)
    await settled(ticker(bench, changed))
    assert await fired(bench) == 0
    assert bench.clock.now_us() - (await record(bench)).last_us < 10 * SECOND
    bench.clock.advance(3601)
    await settled(ticker(bench, changed))
    assert await fired(bench) > 0


@pytest.mark.parametrize(
    "changed",
    [hourly(0, "one"), hourly(0, jitter_us=SECOND), schedule(Timing(cron=" 0  * * * *", catch_up="all"))],
)
async def test_what_is_no_other_timetable_goes_on(bench: Bench, changed: Schedule) -> None:
    await begun(bench, hourly(0))
    bench.clock.advance(7200)
    await settled(ticker(bench, changed))
    assert await fired(bench) == (1 if changed.timing.catch_up == "one" else 2)


async def test_a_record_in_which_no_timetable_is_said_goes_on(bench: Bench) -> None:
    """It was made by an older version."""
    await bench.backend.swap_schedules([establish(STREAM, "tidy")])
    bench.clock.advance(7200)
    await settled(ticker(bench, hourly(0)))
    assert await fired(bench) == 2


async def test_old_code_beside_new_code_fires_nothing_and_changes_nothing(bench: Bench) -> None:
    old, new = await begun(bench, hourly(0)), ticker(bench, hourly(30))
    await settled(new)
    await alive(bench, new)
    before = await record(bench)
    for _ in range(10):
        bench.clock.advance(3600)
        await alive(bench, new)
        for each in (old, new, old):
            await settled(each)
        assert await fired(bench) == 1
    assert (await record(bench)).timing == before.timing


async def test_old_code_comes_back_from_now_on_when_the_new_is_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = await begun(bench, hourly(0)), ticker(bench, hourly(30))
    await settled(new)
    bench.clock.advance(36_000)  # the worker with the new code is gone
    await settled(old)
    assert await fired(bench) == 0  # it may only be about to announce itself
    monkeypatch.setattr(schedule_precedence, "UNCLAIMED", 0)
    await settled(old)
    assert await fired(bench) == 0
    await alive(bench, old, "worker-2")
    for _ in range(3):
        bench.clock.advance(3600)
        await alive(bench, old, "worker-2")
        for each in (old, new):
            await settled(each)
        assert await fired(bench) == 1


async def test_a_worker_announces_its_timetables(bench: Bench) -> None:
    assert len(set(ticker(bench, hourly(0), EVERY_TEN, schedule(EVERY_TEN.timing, "other")).timings)) == 2
