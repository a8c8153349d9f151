"""Schedules: what a store keeps of them, and the step that fires one."""

from __future__ import annotations

import asyncio

from headrace.core.clock import SECOND
from headrace.core.ids import derived_id
from headrace.core.message import Message, Stream, UniqueKey
from headrace.core.orders import ScheduleOrder
from headrace.core.record import JobStatus
from headrace.core.scheduling import ScheduleRecord
from headrace.testing.waiting import wait_until

from .stand import Stand

NAME = "nightly.tidy-up"


async def record(stand: Stand, name: str = NAME) -> ScheduleRecord:
    table = await stand.backend.schedules([stand.stream])
    return next(each for each in table.records if each.name == name)


async def established(stand: Stand) -> int:
    """A schedule that was first seen a minute ago; the answer is when."""
    await stand.backend.establish(stand.stream, [NAME])
    await stand.advance(60)
    return (await record(stand)).last_us


def message(stand: Stand, moment_us: int) -> Message:
    return stand.message(derived_id("schedule", NAME, str(moment_us)))


async def tick(stand: Stand, expected_us: int, next_us: int, *messages: Message) -> bool:
    return await stand.backend.tick(
        stand.stream, NAME, expected_us=expected_us, next_us=next_us, messages=messages
    )


# --- records ------------------------------------------------------------------------------------------------


async def test_a_declared_schedule_is_first_seen_once(stand: Stand) -> None:
    before = (await stand.backend.schedules([stand.stream])).now_us
    await stand.backend.establish(stand.stream, [NAME, "other"])
    first = await record(stand)
    assert before <= first.last_us <= (await stand.backend.schedules([stand.stream])).now_us
    assert first == ScheduleRecord(stand.stream, NAME, first.last_us)
    await stand.advance(10)
    await (await stand.other()).establish(stand.stream, [NAME])
    assert await record(stand) == first


async def test_the_time_is_the_stores(stand: Stand) -> None:
    before = (await stand.backend.schedules([stand.stream])).now_us
    await stand.advance(100)
    after = (await stand.backend.schedules([stand.stream])).now_us
    assert 100 * SECOND <= after - before < 110 * SECOND


async def test_only_the_streams_that_are_asked_for(stand: Stand) -> None:
    source = await stand.queue("elsewhere")
    await stand.backend.establish(stand.stream, ["here"])
    await stand.backend.establish(source.stream, ["there"])
    names = [each.name for each in (await stand.backend.schedules([source.stream])).records]
    assert names == ["there"]
    both = (await stand.backend.schedules([stand.stream, source.stream])).records
    assert {(each.stream.name, each.name) for each in both} == {("work", "here"), ("elsewhere", "there")}
    assert (await stand.backend.schedules([])).records == ()


async def test_a_dynamic_schedule_is_kept_whole(stand: Stand) -> None:
    added = await stand.backend.add_schedule(stand.stream, NAME, b"\x00definition\xff")
    assert added.definition == b"\x00definition\xff"
    assert await record(stand) == added


async def test_the_first_of_a_name_stays(stand: Stand) -> None:
    first = await stand.backend.add_schedule(stand.stream, NAME, b"one")
    assert await stand.backend.add_schedule(stand.stream, NAME, b"two") == first


async def test_a_schedule_alone_makes_its_stream_known(stand: Stand) -> None:
    stream = Stream("queue", "quiet")
    await stand.backend.add_schedule(stream, NAME, b"one")
    assert stream in await stand.backend.streams()


async def test_one_that_is_removed_is_gone(stand: Stand) -> None:
    await stand.backend.add_schedule(stand.stream, NAME, b"one")
    assert await stand.backend.remove_schedule(stand.stream, NAME)
    assert not await stand.backend.remove_schedule(stand.stream, NAME)
    assert (await stand.backend.schedules([stand.stream])).records == ()
    assert (await stand.backend.add_schedule(stand.stream, NAME, b"two")).definition == b"two"


async def test_changes_are_announced(stand: Stand) -> None:
    other = await stand.other()
    orders: list[object] = []
    silence = other.listen(orders.append)
    await wait_until(lambda: not orders)
    for change in (
        stand.backend.add_schedule(stand.stream, NAME, b"one"),
        stand.backend.pause_schedule(stand.stream, NAME, paused=True),
        stand.backend.remove_schedule(stand.stream, NAME),
    ):
        orders.clear()
        await change
        await wait_until(lambda: ScheduleOrder(stand.stream) in orders)
    silence()


# --- firing -------------------------------------------------------------------------------------------------


async def test_a_tick_advances_the_schedule_and_appends(stand: Stand) -> None:
    first = await established(stand)
    moment = first + 30 * SECOND
    assert await tick(stand, first, moment, message(stand, moment))
    assert await record(stand) == ScheduleRecord(stand.stream, NAME, moment, fired_us=moment)
    assert await stand.claim_ids() == [message(stand, moment).id]


async def test_the_same_tick_again_is_refused(stand: Stand) -> None:
    first = await established(stand)
    moment = first + 30 * SECOND
    assert await tick(stand, first, moment, message(stand, moment))
    assert not await tick(stand, first, moment, message(stand, moment))
    assert len(await stand.claim_ids()) == 1


async def test_another_last_moment_is_refused(stand: Stand) -> None:
    first = await established(stand)
    assert not await tick(stand, first - 1, first + SECOND, message(stand, first + SECOND))
    assert (await record(stand)).last_us == first
    assert await stand.claim_ids() == []


async def test_a_moment_that_is_still_to_come_is_refused_whatever_the_worker_believes(stand: Stand) -> None:
    first = await established(stand)
    moment = first + 3600 * SECOND
    assert not await tick(stand, first, moment, message(stand, moment))
    await stand.advance(3600)
    assert await tick(stand, first, moment, message(stand, moment))


async def test_an_unknown_schedule_is_refused(stand: Stand) -> None:
    assert not await tick(stand, 0, 1, message(stand, 1))
    assert await stand.claim_ids() == []


async def test_a_moment_may_be_skipped(stand: Stand) -> None:
    first = await established(stand)
    assert await tick(stand, first, first + SECOND)
    assert await record(stand) == ScheduleRecord(stand.stream, NAME, first + SECOND)
    assert await stand.claim_ids() == []


async def test_several_moments_in_one_step_in_their_order(stand: Stand) -> None:
    first = await established(stand)
    moments = [first + n * SECOND for n in range(1, 31)]
    assert await tick(stand, first, moments[-1], *(message(stand, moment) for moment in moments))
    assert await stand.claim_ids() == [message(stand, moment).id for moment in moments]


async def test_of_many_workers_one_fires_a_moment(stand: Stand) -> None:
    first = await established(stand)
    workers = [stand.backend, *[await stand.other() for _ in range(4)]]
    last = first
    for moment in range(first + SECOND, first + 11 * SECOND, SECOND):
        fired = await asyncio.gather(
            *(
                worker.tick(
                    stand.stream, NAME, expected_us=last, next_us=moment, messages=[message(stand, moment)]
                )
                for worker in workers
            )
        )
        assert sorted(fired) == [False] * 4 + [True]
        last = moment
    assert len(await stand.claim_ids()) == 10


async def test_a_job_of_a_moment_may_be_due_later(stand: Stand) -> None:
    first = await established(stand)
    later = stand.message("later", due_us=first + 600 * SECOND, priority=0, lifetime=5)
    assert await tick(stand, first, first + SECOND, later)
    assert await stand.claim_ids() == []
    found = await stand.backend.look(stand.stream, "later")
    assert found is not None
    assert (found.status, found.due_us) == (JobStatus.SCHEDULED, first + 600 * SECOND)


async def test_a_job_whose_unique_key_is_held_is_left_out(stand: Stand) -> None:
    first = await established(stand)
    key = UniqueKey("only one")
    await stand.add("standing", unique=key)
    assert await tick(stand, first, first + SECOND, stand.message("second", unique=key))
    assert await stand.claim_ids() == ["standing"]


async def test_a_job_that_is_known_is_left_out(stand: Stand) -> None:
    first = await established(stand)
    await stand.add("known")
    assert await tick(stand, first, first + SECOND, stand.message("known"), stand.message("new"))
    assert await stand.claim_ids() == ["known", "new"]


# --- pausing ------------------------------------------------------------------------------------------------


async def test_a_paused_schedule_does_not_fire(stand: Stand) -> None:
    first = await established(stand)
    assert await stand.backend.pause_schedule(stand.stream, NAME, paused=True)
    assert (await record(stand)).paused
    assert not await tick(stand, first, first + SECOND, message(stand, first + SECOND))
    assert await stand.claim_ids() == []


async def test_one_that_is_resumed_goes_on_from_now(stand: Stand) -> None:
    first = await established(stand)
    await stand.backend.pause_schedule(stand.stream, NAME, paused=True)
    await stand.advance(3600)
    assert await stand.backend.pause_schedule(stand.stream, NAME, paused=False)
    resumed = await record(stand)
    assert not resumed.paused
    assert resumed.last_us >= first + 3600 * SECOND
    assert not await tick(stand, first, first + SECOND, message(stand, first + SECOND))


async def test_resuming_one_that_is_not_paused_changes_nothing(stand: Stand) -> None:
    first = await established(stand)
    await stand.backend.pause_schedule(stand.stream, NAME, paused=False)
    assert (await record(stand)).last_us == first


async def test_an_unknown_schedule_cannot_be_paused(stand: Stand) -> None:
    assert not await stand.backend.pause_schedule(stand.stream, NAME, paused=True)
    assert not await stand.backend.pause_schedule(Stream("queue", "nowhere"), NAME, paused=True)
    assert not await stand.backend.remove_schedule(Stream("queue", "nowhere"), NAME)


# --- a clock that is set back -------------------------------------------------------------------------------


async def test_after_the_clock_was_set_back_a_schedule_begins_anew_and_fires(stand: Stand) -> None:
    last_us = await established(stand)
    fired_us = last_us + 10 * SECOND
    assert await tick(stand, last_us, fired_us, message(stand, fired_us))
    await stand.step(-3600)
    now_us = (await stand.backend.schedules([stand.stream])).now_us
    assert await tick(stand, fired_us, now_us)
    await stand.advance(11)
    again_us = now_us + 10 * SECOND
    assert await tick(stand, now_us, again_us, message(stand, again_us))
    assert len(await stand.claim()) == 2


async def test_the_timetable_that_a_schedule_is_fired_by_is_kept(stand: Stand) -> None:
    last = await established(stand)
    for timing, kept in (("b a", "b a"), (None, "b a"), ("c", "c")):
        assert await stand.backend.tick(
            stand.stream, NAME, expected_us=last, next_us=last + 1, messages=(), timing=timing
        )
        last += 1
        assert await record(stand) == ScheduleRecord(stand.stream, NAME, last, timing=kept)
    assert not await stand.backend.tick(
        stand.stream, NAME, expected_us=last - 1, next_us=last + 1, messages=(), timing="d"
    )
    assert (await record(stand)).timing == "c"
    await stand.backend.remove_schedule(stand.stream, NAME)
    await stand.backend.establish(stand.stream, [NAME])
    assert (await record(stand)).timing == ""
