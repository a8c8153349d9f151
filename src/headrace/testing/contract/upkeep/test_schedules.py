"""Schedules: what a store keeps of them, and the step that changes and fires one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from headrace.core.messages.ids import derived_id
from headrace.core.messages.message import Message, Stream, UniqueKey
from headrace.core.records.control import ScheduleNotice
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.schedules.schedule_record import (
    NOW,
    ScheduleRecord,
    ScheduleSwap,
    Swapped,
    add,
    advance,
    establish,
    pause,
    remove,
    resume,
)
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.stand import Stand
from headrace.testing.waiting import wait_until

NAME = "nightly.tidy-up"


async def record(stand: Stand, name: str = NAME) -> ScheduleRecord:
    table = await stand.backend.schedules([stand.stream])
    return next(each for each in table.records if each.name == name)


async def swap(stand: Stand, one: ScheduleSwap, *, by: StreamRouter | None = None) -> Swapped:
    [answer] = await (by or stand.backend).swap_schedules([one])
    return answer


async def established(stand: Stand) -> ScheduleRecord:
    """A schedule that was first seen a minute ago."""
    first = await swap(stand, establish(stand.stream, NAME))
    await stand.advance(60)
    assert first.record is not None
    return first.record


async def change(stand: Stand, how: Callable[[ScheduleRecord], ScheduleSwap]) -> bool:
    """Change the stored record."""
    return (await swap(stand, how(await record(stand)))).done


def message(stand: Stand, moment_us: int) -> Message:
    return stand.message(derived_id("schedule", NAME, str(moment_us)))


async def fire(stand: Stand, expected: ScheduleRecord, until_us: int, *messages: Message) -> bool:
    return (await swap(stand, advance(expected, until_us, messages))).done


# --- records ------------------------------------------------------------------------------------------------


async def test_a_declared_schedule_is_first_seen_once(stand: Stand) -> None:
    before = (await stand.backend.schedules([stand.stream])).now_us
    answers = await stand.backend.swap_schedules(
        [establish(stand.stream, NAME), establish(stand.stream, "other")]
    )
    assert [answer.done for answer in answers] == [True, True]
    assert [answer.record for answer in answers] == [await record(stand), await record(stand, "other")]
    first = await record(stand)
    assert before <= first.last_us <= (await stand.backend.schedules([stand.stream])).now_us
    assert first == ScheduleRecord(stand.stream, NAME, first.last_us)
    await stand.advance(10)
    again = await swap(stand, establish(stand.stream, NAME), by=await stand.other())
    assert again == Swapped(False, first)
    assert await record(stand) == first


async def test_each_swap_of_a_batch_is_answered_by_itself(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    stored = await established(stand)
    moment = stored.last_us + SECOND
    swaps = [
        establish(elsewhere, "there"),
        establish(stand.stream, NAME),
        advance(ScheduleRecord(elsewhere, "unknown", 1), 2, [stand.message("never")]),
        add(stand.stream, "added", b"definition"),
    ]
    answers = await stand.backend.swap_schedules(swaps)
    assert [answer.done for answer in answers] == [True, False, False, True]
    assert answers[1] == Swapped(False, stored)
    assert answers[2] == Swapped(False, None)
    others = [advance(stored, moment, [message(stand, moment)]), establish(elsewhere, "more")]
    assert [answer.done for answer in await stand.backend.swap_schedules(others)] == [True, True]
    assert await stand.claim_ids() == [message(stand, moment).id]
    assert await stand.backend.swap_schedules([]) == []


async def test_every_value_of_a_record_is_kept_and_compared(stand: Stand) -> None:
    await established(stand)
    stored = await record(stand)
    for new in (
        ScheduleRecord(stand.stream, NAME, 5, 4, True, b"\x00\xff", "a b"),
        ScheduleRecord(stand.stream, NAME, 5, 4, True, b"\x00\xff"),
        ScheduleRecord(stand.stream, NAME, 5, 4, True),
        ScheduleRecord(stand.stream, NAME, 5, 4),
        ScheduleRecord(stand.stream, NAME, 5),
        ScheduleRecord(stand.stream, NAME, 6),
    ):
        swapped = await swap(stand, ScheduleSwap(stand.stream, NAME, stored, new))
        assert swapped == Swapped(True, new)
        assert await record(stand) == new
        late = await swap(stand, ScheduleSwap(stand.stream, NAME, stored, None))
        assert late == Swapped(False, new)
        stored = new


async def test_the_time_is_the_stores(stand: Stand) -> None:
    before = (await stand.backend.schedules([stand.stream])).now_us
    await stand.advance(100)
    after = (await stand.backend.schedules([stand.stream])).now_us
    assert 100 * SECOND <= after - before < 110 * SECOND


async def test_only_the_streams_that_are_asked_for(stand: Stand) -> None:
    source = await stand.queue("elsewhere")
    await swap(stand, establish(stand.stream, "here"))
    await swap(stand, establish(source, "there"))
    names = [each.name for each in (await stand.backend.schedules([source])).records]
    assert names == ["there"]
    both = (await stand.backend.schedules([stand.stream, source])).records
    assert {(each.stream.name, each.name) for each in both} == {("work", "here"), ("elsewhere", "there")}
    assert (await stand.backend.schedules([])).records == ()


async def test_a_dynamic_schedule_is_kept_whole(stand: Stand) -> None:
    added = (await swap(stand, add(stand.stream, NAME, b"\x00definition\xff"))).record
    assert added is not None
    assert added.definition == b"\x00definition\xff"
    assert await record(stand) == added


async def test_the_first_of_a_name_stays(stand: Stand) -> None:
    first = await swap(stand, add(stand.stream, NAME, b"one"))
    assert await swap(stand, add(stand.stream, NAME, b"two")) == Swapped(False, first.record)


async def test_a_schedule_alone_makes_its_stream_known(stand: Stand) -> None:
    stream = Stream("queue", "quiet")
    await swap(stand, add(stream, NAME, b"one"))
    assert stream in await stand.backend.streams()


async def test_one_that_is_removed_is_gone(stand: Stand) -> None:
    first = (await swap(stand, add(stand.stream, NAME, b"one"))).record
    assert first is not None
    assert await swap(stand, remove(first)) == Swapped(True, None)
    assert await swap(stand, remove(first)) == Swapped(False, None)
    assert (await stand.backend.schedules([stand.stream])).records == ()
    again = (await swap(stand, add(stand.stream, NAME, b"two"))).record
    assert again is not None
    assert again.definition == b"two"


async def test_changes_by_people_are_announced(stand: Stand) -> None:
    other = await stand.other()
    orders: list[object] = []
    silence = other.listen(orders.append)
    await wait_until(lambda: not orders)
    assert (await swap(stand, add(stand.stream, NAME, b"one"))).done
    await wait_until(lambda: ScheduleNotice(stand.stream) in orders)
    for how in (pause, resume, remove):
        orders.clear()
        assert await change(stand, how)
        await wait_until(lambda: ScheduleNotice(stand.stream) in orders)
    silence()


async def test_what_workers_do_and_what_is_refused_is_not_announced(stand: Stand) -> None:
    other = await stand.other()
    orders: list[object] = []
    silence = other.listen(orders.append)
    first = await established(stand)
    assert await fire(stand, first, first.last_us + SECOND, message(stand, 1))
    assert not (await swap(stand, add(stand.stream, NAME, b"one"))).done
    assert not (await swap(stand, pause(first))).done
    elsewhere = await stand.queue("elsewhere")
    assert (await swap(stand, add(elsewhere, NAME, b"one"))).done
    await wait_until(lambda: ScheduleNotice(elsewhere) in orders)
    assert ScheduleNotice(stand.stream) not in orders
    silence()


# --- firing -------------------------------------------------------------------------------------------------


async def test_firing_advances_the_schedule_and_appends(stand: Stand) -> None:
    first = await established(stand)
    moment = first.last_us + 30 * SECOND
    assert await fire(stand, first, moment, message(stand, moment))
    assert await record(stand) == ScheduleRecord(stand.stream, NAME, moment, fired_us=moment)
    assert await stand.claim_ids() == [message(stand, moment).id]


async def test_the_same_firing_again_is_refused(stand: Stand) -> None:
    first = await established(stand)
    moment = first.last_us + 30 * SECOND
    assert await fire(stand, first, moment, message(stand, moment))
    assert not await fire(stand, first, moment, message(stand, moment))
    assert len(await stand.claim_ids()) == 1


async def test_another_last_moment_is_refused(stand: Stand) -> None:
    first = await established(stand)
    moment = first.last_us + SECOND
    before = msgspec.structs.replace(first, last_us=first.last_us - 1)
    assert not await fire(stand, before, moment, message(stand, moment))
    assert await record(stand) == first
    assert await stand.claim_ids() == []


async def test_a_moment_that_is_still_to_come_is_refused_whatever_the_worker_believes(stand: Stand) -> None:
    first = await established(stand)
    moment = first.last_us + 3600 * SECOND
    assert not await fire(stand, first, moment, message(stand, moment))
    await stand.advance(3600)
    assert await fire(stand, first, moment, message(stand, moment))


async def test_an_unknown_schedule_is_refused(stand: Stand) -> None:
    assert not await fire(stand, ScheduleRecord(stand.stream, NAME, 0), 1, message(stand, 1))
    assert await stand.claim_ids() == []


async def test_a_moment_may_be_skipped(stand: Stand) -> None:
    first = await established(stand)
    assert await fire(stand, first, first.last_us + SECOND)
    assert await record(stand) == ScheduleRecord(stand.stream, NAME, first.last_us + SECOND)
    assert await stand.claim_ids() == []


async def test_several_moments_in_one_step_in_their_order(stand: Stand) -> None:
    first = await established(stand)
    moments = [first.last_us + n * SECOND for n in range(1, 31)]
    assert await fire(stand, first, moments[-1], *(message(stand, moment) for moment in moments))
    assert await stand.claim_ids() == [message(stand, moment).id for moment in moments]


async def test_of_many_workers_one_fires_a_moment(stand: Stand) -> None:
    first = await established(stand)
    workers = [stand.backend, *[await stand.other() for _ in range(4)]]
    last = first
    for moment in range(first.last_us + SECOND, first.last_us + 11 * SECOND, SECOND):
        firing = advance(last, moment, [message(stand, moment)])
        answers = await asyncio.gather(*(swap(stand, firing, by=worker) for worker in workers))
        assert sorted(answer.done for answer in answers) == [False] * 4 + [True]
        assert {answer.record for answer in answers} == {firing.new}
        last = await record(stand)
    assert len(await stand.claim_ids()) == 10


async def test_a_job_of_a_moment_may_be_due_later(stand: Stand) -> None:
    first = await established(stand)
    later = stand.message("later", due_us=first.last_us + 600 * SECOND, priority=0, lifetime=5)
    assert await fire(stand, first, first.last_us + SECOND, later)
    assert await stand.claim_ids() == []
    found = await stand.backend.get(stand.stream, "later")
    assert found is not None
    assert (found.status, found.due_us) == (JobStatus.SCHEDULED, first.last_us + 600 * SECOND)


async def test_a_job_whose_unique_key_is_held_is_left_out(stand: Stand) -> None:
    first = await established(stand)
    key = UniqueKey("only one")
    await stand.add("waiting", unique=key)
    assert await fire(stand, first, first.last_us + SECOND, stand.message("second", unique=key))
    assert await stand.claim_ids() == ["waiting"]


async def test_a_job_that_is_known_is_left_out(stand: Stand) -> None:
    first = await established(stand)
    await stand.add("known")
    assert await fire(stand, first, first.last_us + SECOND, stand.message("known"), stand.message("new"))
    assert await stand.claim_ids() == ["known", "new"]


async def test_a_firing_that_cannot_be_written_stops_no_other(stand: Stand) -> None:
    names = ["first", NAME, "third"]
    await stand.backend.swap_schedules([establish(stand.stream, name) for name in names])
    await stand.advance(60)
    records = [await record(stand, name) for name in names]
    wild = stand.message("wild", due_us=1 << 70)
    messages = [stand.message("one"), wild, stand.message("three")]
    with suppress(Exception):  # not every store has bounds
        await stand.backend.swap_schedules(
            [advance(each, each.last_us + 1, [sent]) for each, sent in zip(records, messages, strict=True)]
        )
    assert await stand.claim_ids() == ["one", "three"]


# --- pausing ------------------------------------------------------------------------------------------------


async def test_a_paused_schedule_does_not_fire(stand: Stand) -> None:
    first = await established(stand)
    assert await change(stand, pause)
    assert (await record(stand)).paused
    assert not await fire(stand, first, first.last_us + SECOND, message(stand, first.last_us + SECOND))
    assert await stand.claim_ids() == []


async def test_one_that_is_resumed_goes_on_from_now(stand: Stand) -> None:
    first = await established(stand)
    assert await change(stand, pause)
    await stand.advance(3600)
    assert await change(stand, resume)
    resumed = await record(stand)
    assert not resumed.paused
    assert resumed.last_us >= first.last_us + 3600 * SECOND
    assert not await fire(stand, first, first.last_us + SECOND, message(stand, first.last_us + SECOND))


async def test_resuming_one_that_is_not_paused_changes_nothing(stand: Stand) -> None:
    first = await established(stand)
    assert await change(stand, resume)
    assert await record(stand) == first


async def test_one_that_is_paused_may_be_paused_again(stand: Stand) -> None:
    first = await established(stand)
    assert await change(stand, pause)
    assert await change(stand, pause)
    assert await record(stand) == msgspec.structs.replace(first, paused=True)


async def test_an_unknown_schedule_cannot_be_paused(stand: Stand) -> None:
    unknown = ScheduleRecord(stand.stream, NAME, 1)
    nowhere = ScheduleRecord(Stream("queue", "nowhere"), NAME, 1)
    for one in (pause(unknown), pause(nowhere), remove(nowhere)):
        assert await swap(stand, one) == Swapped(False, None)
    assert (await stand.backend.schedules([stand.stream, nowhere.stream])).records == ()


# --- a clock that is set back -------------------------------------------------------------------------------


async def test_after_the_clock_was_set_back_a_schedule_begins_anew_and_fires(stand: Stand) -> None:
    first = await established(stand)
    fired_us = first.last_us + 10 * SECOND
    assert await fire(stand, first, fired_us, message(stand, fired_us))
    await stand.step(-3600)
    now_us = (await stand.backend.schedules([stand.stream])).now_us
    assert await fire(stand, await record(stand), now_us)
    await stand.advance(11)
    again_us = now_us + 10 * SECOND
    assert await fire(stand, await record(stand), again_us, message(stand, again_us))
    assert len(await stand.claim()) == 2


async def test_after_the_clock_was_set_back_a_schedule_is_paused_and_resumed(stand: Stand) -> None:
    first = await established(stand)
    fired_us = first.last_us + 10 * SECOND
    assert await fire(stand, first, fired_us, message(stand, fired_us))
    await stand.step(-3600)
    assert not await fire(stand, await record(stand), fired_us + 1)
    assert await change(stand, pause)
    assert (await record(stand)).last_us == fired_us
    assert await change(stand, resume)
    assert (await record(stand)).last_us < fired_us


async def test_the_timetable_that_a_schedule_is_fired_by_is_kept(stand: Stand) -> None:
    stored = await established(stand)
    for timing, kept in (("b a", "b a"), (None, "b a"), ("c", "c")):
        last_us = stored.last_us + 1
        assert (await swap(stand, advance(stored, last_us, timing=timing))).done
        before, stored = stored, await record(stand)
        assert stored == ScheduleRecord(stand.stream, NAME, last_us, timing=kept)
    assert not (await swap(stand, advance(before, stored.last_us + 1, timing="d"))).done
    assert (await record(stand)).timing == "c"
    assert await change(stand, remove)
    assert await swap(stand, establish(stand.stream, NAME)) == Swapped(True, await record(stand))
    assert (await record(stand)).timing == ""


async def test_the_stores_clock_is_filled_in_also_where_messages_are_appended(stand: Stand) -> None:
    first = await established(stand)
    new = msgspec.structs.replace(first, last_us=NOW)
    swapped = await swap(stand, ScheduleSwap(stand.stream, NAME, first, new, [stand.message("now")]))
    assert swapped == Swapped(True, await record(stand))
    assert (await record(stand)).last_us >= first.last_us + 60 * SECOND
    assert await stand.claim_ids() == ["now"]
