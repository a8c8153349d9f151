"""Work for child processes: a claim says how much of it the worker can take, and leaves the rest."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import FRESH, HIGH, LOW, NORMAL, TrailEntry
from headrace.core.messages.outcome import Released, Retry, Snoozed
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.core.schedules.schedule_record import ScheduleRecord, advance, establish
from headrace.testing.contract.kit.stand import LEASE, Stand

#: The state of a message that is suspect.
SUSPECT = FRESH.crashed(TrailEntry(1, "crashed", "worker-1")).crashed(TrailEntry(2, "crashed", "worker-1"))


async def children(stand: Stand, count: int, *, priority: int = NORMAL) -> list[str]:
    return [await stand.add(priority=priority, child=True) for _ in range(count)]


async def test_a_claim_says_whether_it_is_child_work(stand: Stand) -> None:
    child, other = await stand.add(child=True), await stand.add()
    assert {claim.id: claim.child for claim in await stand.claim()} == {child: True, other: False}


@pytest.mark.parametrize("free", [1, 2, 5])
async def test_no_more_child_work_is_handed_out_than_was_asked_for(stand: Stand, free: int) -> None:
    await children(stand, 4)
    await stand.append(*[stand.message(child=True) for _ in range(3)])
    claims = await stand.claim(children=free)
    assert len(claims) == free
    assert all(claim.child for claim in claims)
    assert len(await stand.claim(children=100)) == 7 - free


async def test_the_number_of_children_holds_for_large_messages(stand: Stand) -> None:
    for _ in range(6):
        await stand.add(body=bytes(900_000), child=True)
    assert len(await stand.claim(children=2)) <= 2


async def test_who_has_no_free_child_is_offered_what_stands_behind(stand: Stand) -> None:
    await children(stand, 3, priority=HIGH)
    others = [await stand.add() for _ in range(2)]
    assert sorted(await stand.claim_ids(children=0)) == sorted(others)
    assert await stand.claim_ids(children=0) == []
    assert (await stand.counts()).queued == 3


async def test_who_names_no_number_gets_all(stand: Stand) -> None:
    ids = await children(stand, 3)
    assert sorted(await stand.claim_ids()) == sorted(ids)


async def test_child_work_counts_towards_the_limit(stand: Stand) -> None:
    await children(stand, 3)
    await stand.add()
    assert len(await stand.claim_ids(2, children=100)) == 2
    assert len(await stand.claim_ids(100, children=100)) == 2


async def test_the_number_of_children_holds_over_all_lanes_and_sources(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    for source in (stand.source, elsewhere):
        for priority in (HIGH, NORMAL, LOW):
            await stand.add(source=source, priority=priority, child=True)
    sources = [stand.source, elsewhere]
    assert [len(await stand.claim(sources=sources, children=2)) for _ in range(4)] == [2, 2, 2, 0]


async def test_priorities_hold_among_child_work_and_the_rest(stand: Stand) -> None:
    low, high = await stand.add(priority=LOW), await stand.add(priority=HIGH)
    low_child, high_child = [await stand.add(priority=each, child=True) for each in (LOW, HIGH)]
    normal = await stand.add()
    claimed = await stand.claim_ids(children=1)
    assert set(claimed[:2]) == {high, high_child}
    assert claimed[2:] == [normal, low]
    assert await stand.claim_ids(children=1) == [low_child]


@pytest.mark.whole("parts have no common order")
async def test_child_work_of_a_lane_keeps_its_order(stand: Stand) -> None:
    ids = await children(stand, 5)
    assert [id for _ in range(3) for id in await stand.claim_ids(children=2)] == ids


async def test_neither_child_work_nor_the_rest_waits_for_the_other_to_run_dry(stand: Stand) -> None:
    await stand.append(*[stand.message(child=number % 2 == 0) for number in range(40)])
    claims = [claim for _ in range(10) for claim in await stand.claim(1, children=1)]
    assert 2 <= sum(claim.child for claim in claims) <= 8


async def test_a_suspect_of_child_work_is_a_suspect_and_child_work(stand: Stand) -> None:
    await children(stand, 2)
    for claim in await stand.claim():
        await stand.settle(claim, Released(SUSPECT))
    assert await stand.claim_ids(suspects=0) == []
    assert await stand.claim_ids(children=0) == []
    assert len(await stand.claim(suspects=1, children=2)) == 1
    assert len(await stand.claim(suspects=2, children=1)) == 1


async def test_suspects_of_both_kinds_count_together(stand: Stand) -> None:
    await stand.add(child=True)
    await stand.add()
    for claim in await stand.claim():
        await stand.settle(claim, Released(SUSPECT))
    assert len(await stand.claim(suspects=1)) == 1
    assert len(await stand.claim(suspects=1)) == 1


# --- the flag stays with the message ----------------------------------------------------------------------


async def only_a_child_gets(stand: Stand, id: str) -> None:
    assert await stand.claim_ids(children=0) == []
    (claim,) = await stand.claim(children=1)
    assert (claim.id, claim.child) == (id, True)


async def test_handed_back_it_is_child_work(stand: Stand) -> None:
    claim = await stand.claim_one(await stand.add(child=True))
    await stand.settle(claim, Released())
    await only_a_child_gets(stand, claim.id)


@pytest.mark.parametrize("outcome", [Retry, Snoozed, Released])
async def test_when_it_is_due_again_it_is_child_work(
    stand: Stand, outcome: type[Retry | Snoozed | Released]
) -> None:
    claim = await stand.claim_one(await stand.add(child=True))
    await stand.settle(claim, outcome(FRESH, microseconds(10)))
    await stand.advance(11)
    await stand.promote()
    await only_a_child_gets(stand, claim.id)


async def test_retried_at_once_it_is_child_work(stand: Stand) -> None:
    claim = await stand.claim_one(await stand.add(child=True))
    await stand.settle(claim, Retry(FRESH, 0))
    await only_a_child_gets(stand, claim.id)


async def test_appended_with_a_delay_it_is_child_work(stand: Stand) -> None:
    id = await stand.add(child=True, delay=10)
    await stand.advance(11)
    await stand.promote()
    await only_a_child_gets(stand, id)


async def test_run_now_it_is_child_work(stand: Stand) -> None:
    id = await stand.add(child=True, delay=100)
    assert await stand.backend.run_now(stand.stream, id)
    await only_a_child_gets(stand, id)


async def test_recovered_it_is_child_work(stand: Stand) -> None:
    claim = await stand.claim_one(await stand.add(child=True))
    await stand.lose(claim)
    await only_a_child_gets(stand, claim.id)


async def test_replayed_it_is_child_work(stand: Stand) -> None:
    claim = await stand.claim_one(await stand.add(child=True, priority=LOW))
    await stand.die(claim)
    await stand.backend.replay(stand.stream, [claim.id])
    await only_a_child_gets(stand, claim.id)


async def test_of_a_schedule_it_is_child_work(stand: Stand) -> None:
    await stand.backend.swap_schedules([establish(stand.stream, "nightly")])
    (record,) = (await stand.backend.schedules([stand.stream])).records
    assert isinstance(record, ScheduleRecord)
    message = stand.message(child=True)
    [fired] = await stand.backend.swap_schedules([advance(record, record.last_us + 1, [message])])
    assert fired.done
    await only_a_child_gets(stand, message.id)


# --- waiting, counting, ending ----------------------------------------------------------------------------


async def test_child_work_does_not_wake_who_has_no_free_child_and_does_not_keep_it_busy(stand: Stand) -> None:
    waiting = asyncio.create_task(stand.claim(children=0, wait=20))
    await children(stand, 2)
    other = await stand.add()
    assert [claim.id for claim in await waiting] == [other]


async def test_who_waits_with_a_free_child_is_woken_by_child_work(stand: Stand) -> None:
    waiting = asyncio.create_task(stand.claim(children=1, wait=20))
    (id,) = await children(stand, 1)
    assert [claim.id for claim in await waiting] == [id]


async def test_another_process_is_woken_by_child_work(stand: Stand) -> None:
    waiting = asyncio.create_task(stand.claim(children=1, wait=20, by=await stand.other(), consumer="other"))
    (id,) = await children(stand, 1)
    assert [claim.id for claim in await waiting] == [id]


async def test_it_is_counted_listed_and_its_age_is_known(stand: Stand) -> None:
    ids = await children(stand, 2)
    since = stand.now_us()
    await stand.advance(5)
    await stand.add()
    counts = await stand.counts()
    assert counts.queued == 3
    assert counts.oldest_us <= since
    page = await stand.backend.messages(stand.stream, status=JobStatus.QUEUED)
    assert set(ids) < {record.id for record in page}
    pages, cursor = set(), None
    for _ in range(3):
        page = await stand.backend.messages(stand.stream, status=JobStatus.QUEUED, limit=1, cursor=cursor)
        pages |= {record.id for record in page}
        cursor = page.cursor
    assert set(ids) < pages
    claims = await stand.claim(children=1)
    assert (await stand.counts()).queued == 1
    assert (await stand.counts()).running == len(claims) == 2


@pytest.mark.whole("each part has its share of the limit")
async def test_it_counts_towards_the_limit_of_its_queue(stand: Stand) -> None:
    batch = stand.batch(*[stand.message(child=True) for _ in range(9)], limit=6)
    answers = await stand.backend.append(batch)
    assert [answer.verdict for answer in answers] == ["accepted"] * 6 + ["full"] * 3


async def test_it_is_cancelled_and_purged_where_it_waits(stand: Stand) -> None:
    cancelled, *_ = await children(stand, 3)
    await stand.backend.cancel(stand.stream, cancelled, ttl_us=microseconds(60))
    assert await stand.status(cancelled) is JobStatus.CANCELLED
    purged = 0
    while count := await stand.backend.purge(stand.stream, ttl_us=0, limit=10):
        purged += count
    assert purged == 2
    assert await stand.claim_ids() == []


async def test_a_late_success_finds_it_where_it_was_queued_again(stand: Stand) -> None:
    claim = await stand.claim_one(await stand.add(child=True))
    await stand.lose(claim)
    await stand.settle_done(claim, value=b"7")
    assert await stand.status(claim.id) is JobStatus.SUCCEEDED
    assert (await stand.counts()).queued == 0


async def test_what_is_paused_is_not_handed_out(stand: Stand) -> None:
    (id,) = await children(stand, 1)
    await stand.backend.pause(stand.stream, paused=True)
    assert await stand.claim_ids(children=1) == []
    await stand.backend.pause(stand.stream, paused=False)
    assert await stand.claim_ids(children=1) == [id]


async def test_what_several_leases_held_comes_back_as_child_work(stand: Stand) -> None:
    await children(stand, 3)
    await stand.add()
    await stand.claim()
    await stand.advance(LEASE + 1)
    assert len(await stand.reclaim()) == 4
    assert len(await stand.claim(children=0)) == 1
    assert len(await stand.claim(children=2)) == 2
