"""The order in which messages are handed out: suspects, returned work, then the priorities."""

from __future__ import annotations

import pytest

from headrace.core.messages.message import FRESH, HIGH, LOW, NORMAL, State, TrailEntry
from headrace.core.messages.outcome import Released, Retry, Snoozed, Verdict
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import LEASE, Stand

#: The state of a message that crashed once, and of a suspect.
CRASHED_ONCE = FRESH.crashed(TrailEntry(1, "crashed", "worker-1"))
CRASHED_TWICE = CRASHED_ONCE.crashed(TrailEntry(2, "crashed", "worker-2"))


async def test_high_goes_before_normal_and_normal_before_low(stand: Stand) -> None:
    low, normal, high = [await stand.add(priority=priority) for priority in (LOW, NORMAL, HIGH)]
    assert await stand.claim_ids() == [high, normal, low]


@pytest.mark.whole("parts have no common order")
async def test_one_claim_fills_up_from_lane_after_lane(stand: Stand) -> None:
    low = [await stand.add(priority=LOW) for _ in range(3)]
    high = [await stand.add(priority=HIGH) for _ in range(2)]
    assert await stand.claim_ids(4) == [*high, *low[:2]]


async def test_a_priority_holds_over_all_sources(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    low, high = await stand.add(priority=LOW), await stand.add(priority=HIGH, source=elsewhere)
    sources = [stand.source, elsewhere]
    assert await stand.claim_ids(1, sources=sources) == [high]
    assert await stand.claim_ids(1, sources=sources) == [low]


async def test_returned_work_goes_before_every_priority(stand: Stand) -> None:
    returned = await stand.running()
    high = await stand.add(priority=HIGH)
    await stand.settle(returned, Released())
    assert await stand.claim_ids() == [returned.id, high]


@pytest.mark.whole("parts have no common order")
async def test_returned_work_keeps_its_order(stand: Stand) -> None:
    ids = [await stand.add() for _ in range(3)]
    for claim in await stand.claim():
        await stand.settle(claim, Released())
    assert await stand.claim_ids() == ids


async def test_suspects_go_first(stand: Stand) -> None:
    suspect, returned = await stand.running(), await stand.running()
    high = await stand.add(priority=HIGH)
    await stand.settle(returned, Released())
    await stand.settle(suspect, Released(CRASHED_TWICE))
    assert await stand.claim_ids() == [suspect.id, returned.id, high]


@pytest.mark.whole("parts have no common order")
async def test_no_more_suspects_are_handed_out_than_were_asked_for(stand: Stand) -> None:
    suspects = await _make_suspects(stand, 3)
    plain = await stand.add()
    assert await stand.claim_ids(suspects=1) == [suspects[0], plain]
    assert await stand.claim_ids(suspects=1) == [suspects[1]]


@pytest.mark.whole("parts have no common order")
async def test_who_wants_no_suspects_gets_none(stand: Stand) -> None:
    suspects = await _make_suspects(stand, 2)
    plain = await stand.add()
    assert await stand.claim_ids(suspects=0) == [plain]
    assert await stand.claim_ids(suspects=0) == []
    assert await stand.claim_ids(suspects=2) == suspects


@pytest.mark.whole("parts have no common order")
async def test_suspects_count_towards_the_limit(stand: Stand) -> None:
    suspects = await _make_suspects(stand, 2)
    await stand.add()
    assert await stand.claim_ids(1, suspects=5) == suspects[:1]


async def test_the_number_of_suspects_holds_over_all_sources(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    for source in (stand.source, elsewhere):
        await stand.add(source=source)
        (claim,) = await stand.claim(sources=[source])
        await stand.settle(claim, Released(CRASHED_TWICE))
    sources = [stand.source, elsewhere]
    assert len(await stand.claim(sources=sources, suspects=1)) == 1
    assert len(await stand.claim(sources=sources, suspects=1)) == 1


async def test_a_claim_says_that_its_message_is_suspect(stand: Stand) -> None:
    await _make_suspects(stand, 1)
    claim = await stand.claim_one()
    assert claim.suspect
    assert claim.state == CRASHED_TWICE


@pytest.mark.parametrize("priority", [NORMAL, LOW])
async def test_a_lower_priority_is_not_starved_by_a_full_higher_one(stand: Stand, priority: int) -> None:
    await stand.append(*[stand.message(priority=HIGH) for _ in range(40)])
    await stand.add(priority=priority)
    claims = [await stand.claim_one() for _ in range(20)]
    assert 1 <= sum(claim.priority == priority for claim in claims) <= 3


async def test_of_twenty_claims_about_two_start_from_the_bottom(stand: Stand) -> None:
    for priority in (HIGH, LOW):
        await stand.append(*[stand.message(priority=priority) for _ in range(30)])
    claims = [await stand.claim_one() for _ in range(20)]
    assert 1 <= sum(claim.priority == LOW for claim in claims) <= 3


async def test_returned_work_comes_first_from_the_bottom_too(stand: Stand) -> None:
    await stand.append(*[stand.message(priority=LOW) for _ in range(20)])
    for _ in range(15):
        claim = await stand.claim_one()
        await stand.settle(claim, Released())
        claim = await stand.claim_one(claim.id)
        await stand.settle_done(claim)


async def test_sources_take_turns(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("second"), await stand.queue("third")]
    for source in sources:
        await stand.append(*[stand.message() for _ in range(30)], source=source)
    claims = [claim for _ in range(9) for claim in await stand.claim(1, sources=sources)]
    assert {claim.whole for claim in claims} == set(sources)


async def test_low_lanes_of_all_sources_get_their_turn(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("second")]
    for source in sources:
        for priority in (HIGH, LOW):
            messages = [stand.message(priority=priority) for _ in range(80)]
            await stand.append(*messages, source=source)
    claims = [claim for _ in range(60) for claim in await stand.claim(1, sources=sources)]
    assert {claim.whole for claim in claims if claim.priority == LOW} == set(sources)


# --- where a message goes when it is queued again ---------------------------------------------------------


async def test_a_failed_message_goes_back_to_the_lane_of_its_priority(stand: Stand) -> None:
    await stand.add(priority=LOW)
    failed = await stand.claim_one()
    await stand.retry(failed, delay=10)
    normal = await stand.add()
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim_ids() == [normal, failed.id]


async def test_a_snoozed_message_goes_back_to_the_lane_of_its_priority(stand: Stand) -> None:
    await stand.add(priority=HIGH)
    snoozed = await stand.claim_one()
    await stand.settle(snoozed, Snoozed(FRESH, microseconds(10)))
    await stand.add()
    await stand.advance(11)
    await stand.promote()
    assert (await stand.claim_ids())[0] == snoozed.id


async def test_a_message_handed_back_with_a_delay_is_not_returned_work(stand: Stand) -> None:
    await stand.add(priority=LOW)
    claim = await stand.claim_one()
    await stand.settle(claim, Released(FRESH, microseconds(10)))
    normal = await stand.add()
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim_ids() == [normal, claim.id]


async def test_a_message_that_crashed_twice_is_suspect_when_it_is_handed_back(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.settle(claim, Released(CRASHED_TWICE)) is Verdict.KEPT
    assert await stand.claim_ids(suspects=0) == []


async def test_a_message_that_crashed_twice_is_suspect_when_its_retry_is_due(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Retry(CRASHED_TWICE, microseconds(10)))
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim_ids(suspects=0) == []
    assert await stand.claim_ids(suspects=1) == [claim.id]


async def test_a_message_that_crashed_once_is_returned_work(stand: Stand) -> None:
    recovered = await stand.running()
    high = await stand.add(priority=HIGH)
    await stand.lose(recovered)
    [claim, _] = claims = await stand.claim(suspects=0)
    assert [each.id for each in claims] == [recovered.id, high]
    assert not claim.suspect


async def test_all_that_a_lost_worker_held_is_claimed_at_once(stand: Stand) -> None:
    ids = [await stand.add() for _ in range(12)]
    await stand.claim()
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    assert sorted(await stand.claim_ids(suspects=0)) == sorted(ids)


async def test_a_message_that_crashed_once_is_handed_back_and_retried_like_any_other(stand: Stand) -> None:
    await stand.add(priority=LOW)
    claim = await stand.claim_one()
    await stand.settle(claim, Released(CRASHED_ONCE))
    await stand.add()
    assert (await stand.claim_ids(suspects=0))[0] == claim.id, "returned work"
    retried = await stand.running()
    await stand.settle(retried, Retry(CRASHED_ONCE, microseconds(10)))
    high = await stand.add(priority=HIGH)
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim_ids(suspects=0) == [high, retried.id], "the lane of its priority"


async def test_a_message_is_suspect_from_its_second_crash_on(stand: Stand) -> None:
    await stand.lose(await stand.running())
    claim = await stand.claim_one()
    await stand.lose(claim)
    assert await stand.claim_ids(suspects=0) == []
    assert await stand.claim_ids(suspects=1) == [claim.id]


async def test_a_message_that_is_run_now_goes_to_the_lane_of_its_priority(stand: Stand) -> None:
    normal = await stand.add()
    low, high = await stand.add(priority=LOW, delay=100), await stand.add(priority=HIGH, delay=100)
    for id in (low, high):
        assert await stand.backend.run_now(stand.stream, id)
    assert await stand.claim_ids() == [high, normal, low]


async def test_a_message_that_crashed_twice_and_is_run_now_is_suspect(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Retry(CRASHED_TWICE, microseconds(100)))
    await stand.backend.run_now(stand.stream, claim.id)
    assert await stand.claim_ids(suspects=0) == []


async def test_a_replayed_message_is_suspect_no_longer(stand: Stand) -> None:
    await stand.add(priority=LOW)
    for _ in range(3):
        await stand.claim_one()
        await stand.advance(LEASE + 1)
        (recovery,) = await stand.reclaim()
    await stand.backend.replay(stand.stream, [recovery.id])
    normal = await stand.add()
    assert await stand.claim_ids(suspects=0) == [normal, recovery.id]


async def _make_suspects(stand: Stand, count: int, state: State = CRASHED_TWICE) -> list[str]:
    ids = [await stand.add() for _ in range(count)]
    for claim in await stand.claim():
        await stand.settle(claim, Released(state))
    return ids
