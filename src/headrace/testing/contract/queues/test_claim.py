"""Claiming: which messages a claim gets, how often a message is handed out, and how a claim waits."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH, HIGH, Stream
from headrace.core.messages.outcome import Done, Released, Settlement
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CLAIM_BYTES
from headrace.testing.contract.kit.stand import LEASE, Stand, queue_and_group
from headrace.testing.contract.kit.waits import LONG, SOON, claimed, started
from headrace.testing.waiting import wait_until


async def test_a_claim_holds_all_that_its_worker_needs(stand: Stand) -> None:
    id = await stand.add(body=b"to do", priority=HIGH)
    claim = await stand.claim_one()
    assert (claim.whole, claim.id, claim.body) == (stand.stream, id, b"to do")
    assert (claim.state, claim.priority, claim.suspect) == (FRESH, HIGH, False)
    assert abs(claim.claimed_us - stand.now_us()) < 5 * SECOND


@queue_and_group
async def test_a_claimed_message_is_running_and_says_where(stand: Stand) -> None:
    id = await stand.add()
    await stand.claim_one(consumer="host-7")
    record = await stand.look(id)
    assert (record.status, record.worker, record.body) == (JobStatus.RUNNING, "host-7", b"hello")
    assert abs(record.claimed_us - stand.now_us()) < 5 * SECOND


@queue_and_group
async def test_a_message_is_handed_out_once(stand: Stand) -> None:
    await stand.add()
    assert len(await stand.claim()) == 1
    assert await stand.claim(consumer="worker-2") == []


async def test_a_message_is_handed_out_to_one_process(stand: Stand) -> None:
    await stand.add()
    await stand.claim_one()
    assert await stand.claim(consumer="worker-2", by=await stand.other()) == []


async def test_what_one_process_appends_another_claims(stand: Stand) -> None:
    id = await stand.add()
    assert (await stand.claim_one(by=await stand.other())).id == id


@queue_and_group
async def test_processes_that_claim_at_once_share_without_overlap(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(100)])
    backends = [stand.backend, *[await stand.other() for _ in range(3)]]

    async def drain(number: int) -> list[Claim]:
        drained: list[Claim] = []
        while claims := await stand.claim(7, consumer=f"worker-{number}", by=backends[number]):
            drained += claims
        return drained

    drained = await asyncio.gather(*map(drain, range(4)))
    ids = [claim.id for claims in drained for claim in claims]
    assert len(ids) == len(set(ids)) == 100


@queue_and_group
async def test_no_more_are_handed_out_than_were_asked_for(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(5)])
    assert len(await stand.claim(3)) == 3
    assert len(await stand.claim(3)) == 2


async def test_a_claim_is_bounded_in_bytes_whatever_came_before(stand: Stand) -> None:
    large = 900_000
    small = [stand.message() for _ in range(300)]
    await stand.append(*small, *[stand.message(body=bytes(large)) for _ in range(30)])
    sizes: list[int] = []
    for limit in (20, *[1000] * 330):
        claims = await stand.claim(limit)
        sizes += [len(claim.body) for claim in claims]
        assert sum(len(claim.body) for claim in claims) < CLAIM_BYTES + large
        await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
        if not claims:
            break
    assert sorted(sizes) == [5] * len(small) + [large] * 30


@pytest.mark.whole("parts have no common order")
async def test_a_claim_of_small_messages_brings_all_that_was_asked_for(stand: Stand) -> None:
    await stand.add(body=bytes(900_000))
    await stand.append(*[stand.message() for _ in range(600)])
    await stand.settle_done(await stand.claim_one())
    await stand.claim(20)
    assert len(await stand.claim(500)) == 500


@pytest.mark.whole("parts have no common order")
async def test_the_first_ready_is_the_first_out(stand: Stand) -> None:
    ids = [await stand.add() for _ in range(10)]
    assert [(await stand.claim_one()).id for _ in ids] == ids


async def test_a_claim_takes_from_several_sources(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    here, there = await stand.add(), await stand.add(source=elsewhere)
    claims = await stand.claim(sources=[stand.source, elsewhere])
    assert {(claim.whole, claim.id) for claim in claims} == {(stand.stream, here), (elsewhere, there)}


async def test_a_claim_takes_from_no_other_source(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await stand.add()
    assert await stand.claim(sources=[elsewhere]) == []


async def test_each_hand_out_has_a_token_of_its_own(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, Released())
    again = await stand.claim_one(claim.id)
    assert again.token != claim.token


# --- waiting ----------------------------------------------------------------------------------------------


async def test_a_claim_that_does_not_wait_is_answered_at_once(stand: Stand) -> None:
    assert await stand.claim(wait=0) == []


async def test_a_claim_waits_no_longer_than_it_was_told(stand: Stand) -> None:
    started = time.monotonic()
    assert await stand.claim(wait=0.1) == []
    assert 0.05 < time.monotonic() - started < SOON


async def test_a_claim_on_a_stream_that_is_not_there_yet_waits_too(stand: Stand) -> None:
    elsewhere = Stream("queue", "elsewhere")
    await stand.backend.declare_stream(elsewhere, 30 * SECOND)
    waiting = await started(stand.claim(sources=[elsewhere], wait=LONG))
    id = await stand.add(source=elsewhere)
    assert await claimed(waiting) == [id]


@queue_and_group
async def test_a_waiting_claim_is_woken_by_an_append(stand: Stand) -> None:
    waiting = await started(stand.claim(wait=LONG))
    id = await stand.add()
    assert await claimed(waiting) == [id]


@queue_and_group
async def test_a_waiting_claim_is_woken_by_an_append_of_another_process(stand: Stand) -> None:
    other = await stand.other()
    waiting = await started(stand.claim(wait=LONG))
    message = stand.message()
    await other.append(stand.batch(message, producer="another"))
    assert await claimed(waiting) == [message.id]


async def test_none_of_many_sources_waits_for_the_others_to_run_dry(stand: Stand) -> None:
    sources = [await stand.queue(f"queue-{number}") for number in range(150)]
    for source in sources:
        await stand.append(*[stand.message() for _ in range(3)], source=source)
    served = {claim.whole for _ in range(170) for claim in await stand.claim(2, sources=sources)}
    assert len(served) >= 130


async def test_a_waiting_claim_is_woken_by_one_of_many_sources(stand: Stand) -> None:
    sources = [await stand.queue(f"queue-{number}") for number in range(150)]
    waiting = await started(stand.claim(sources=sources, wait=LONG))
    for source in (sources[0], sources[140]):
        id = await stand.add(source=source)
        assert await claimed(waiting) == [id]
        waiting = await started(stand.claim(sources=sources, wait=LONG))
    waiting.cancel()


@pytest.mark.parametrize("name", ["first", "second", "third"])
async def test_a_waiting_claim_is_woken_by_any_of_its_sources(stand: Stand, name: str) -> None:
    sources = [await stand.queue(each) for each in ("first", "second", "third")]
    waiting = await started(stand.claim(sources=sources, wait=LONG))
    id = await stand.add(source=Stream("queue", name))
    assert await claimed(waiting) == [id]


async def test_a_waiting_claim_is_woken_by_a_promotion(stand: Stand) -> None:
    id = await stand.add(delay=10)
    waiting = await started(stand.claim(wait=LONG))
    await stand.advance(11)
    await stand.promote()
    assert await claimed(waiting) == [id]


async def test_a_waiting_claim_is_woken_by_a_recovery(stand: Stand) -> None:
    claim = await stand.running()
    other = await stand.other()
    waiting = await started(stand.claim(consumer="worker-2", wait=LONG))
    await stand.advance(LEASE + 1)
    await wait_until(lambda: _recovers(stand, claim))
    assert await claimed(waiting) == [claim.id]
    await other.close()


async def test_a_waiting_claim_is_woken_by_a_release(stand: Stand) -> None:
    claim = await stand.running()
    waiting = await started(stand.claim(consumer="worker-2", wait=LONG))
    await stand.settle(claim, Released())
    assert await claimed(waiting) == [claim.id]


@queue_and_group
async def test_a_waiting_claim_is_woken_by_a_replay(stand: Stand) -> None:
    claim = await stand.running()
    await stand.die(claim)
    waiting = await started(stand.claim(wait=LONG))
    await stand.backend.replay(stand.stream, [claim.id])
    assert await claimed(waiting) == [claim.id]


async def test_a_waiting_claim_is_woken_when_a_message_is_run_now(stand: Stand) -> None:
    id = await stand.add(delay=1000)
    waiting = await started(stand.claim(wait=LONG))
    await stand.backend.run_now(stand.stream, id)
    assert await claimed(waiting) == [id]


@queue_and_group
async def test_a_waiting_claim_is_woken_when_its_stream_is_resumed(stand: Stand) -> None:
    await stand.backend.pause(stand.stream, paused=True)
    id = await stand.add()
    waiting = await started(stand.claim(wait=LONG))
    await stand.backend.pause(stand.stream, paused=False)
    assert await claimed(waiting) == [id]


async def test_what_two_waiting_claims_are_woken_for_goes_to_one(stand: Stand) -> None:
    first = await started(stand.claim(wait=LONG))
    second = await started(stand.claim(consumer="worker-2", wait=LONG))
    await stand.add()
    done, _ = await asyncio.wait([first, second], timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    await stand.add()
    claims = [*await claimed(first), *await claimed(second)]
    assert len(set(claims)) == 2


# --- waking and cancelling --------------------------------------------------------------------------------


@queue_and_group
async def test_wake_makes_a_waiting_claim_return(stand: Stand) -> None:
    waiting = await started(stand.claim(wait=LONG))
    stand.backend.wake("worker-1")
    assert await claimed(waiting) == []


async def test_wake_makes_the_next_claim_return_when_none_is_waiting(stand: Stand) -> None:
    stand.backend.wake("worker-1")
    assert await claimed(await started(stand.claim(wait=LONG))) == []


async def test_a_woken_claim_still_takes_what_is_there(stand: Stand) -> None:
    id = await stand.add()
    stand.backend.wake("worker-1")
    claims = await stand.claim(wait=LONG) or await stand.claim()
    assert [claim.id for claim in claims] == [id]


async def test_wake_does_not_disturb_another_consumer(stand: Stand) -> None:
    first = await started(stand.claim(consumer="worker-1", wait=LONG))
    second = await started(stand.claim(consumer="worker-2", wait=LONG))
    stand.backend.wake("worker-1")
    assert await claimed(first) == []
    id = await stand.add()
    assert await claimed(second) == [id]


async def test_one_wake_serves_one_claim(stand: Stand) -> None:
    stand.backend.wake("worker-1")
    assert await claimed(await started(stand.claim(wait=LONG))) == []
    waiting = await started(stand.claim(wait=LONG))
    id = await stand.add()
    assert await claimed(waiting) == [id]


@queue_and_group
async def test_a_cancelled_wait_takes_nothing_with_it(stand: Stand) -> None:
    waiting = await started(stand.claim(wait=LONG))
    waiting.cancel()
    await asyncio.wait([waiting])
    id = await stand.add()
    await _is_offered_again(stand, id)


async def test_a_claim_cancelled_in_the_moment_of_an_append_loses_nothing(stand: Stand) -> None:
    waiting = await started(stand.claim(wait=LONG))
    id = await stand.add()
    waiting.cancel()
    await asyncio.wait([waiting])
    await _is_offered_again(stand, id)


@pytest.mark.parametrize("steps", range(6))
async def test_a_claim_cancelled_under_way_loses_nothing(stand: Stand, steps: int) -> None:
    id = await stand.add()
    claiming = asyncio.ensure_future(stand.claim(wait=LONG))
    for _ in range(steps):
        await asyncio.sleep(0)
    if not claiming.cancel():
        assert await claimed(claiming) == [id]
        return
    await asyncio.wait([claiming])
    await _is_offered_again(stand, id)


async def _recovers(stand: Stand, claim: Claim) -> bool:
    return claim.id in [recovery.id for recovery in await stand.reclaim()]


async def _is_offered_again(stand: Stand, id: str) -> None:
    """The message is offered to the same consumer at once, or to any when the lease has run out."""
    if id in await stand.claim_ids():
        return
    await stand.advance(LEASE + 1)
    await stand.reclaim()
    assert await stand.claim_ids() == [id]
