"""Renewing: the lease keeper renews in a thread of its own. Only the holder of a message can renew it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH
from headrace.core.messages.outcome import Released
from headrace.core.records.answers import Renewal
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, queue_and_group, retry


async def test_a_held_claim_is_renewed(stand: Stand) -> None:
    claim = await stand.running()
    assert await stand.renew(claim) == [Renewal.KEPT]


async def test_nothing_to_renew_is_nothing_to_answer(stand: Stand) -> None:
    assert await stand.renew() == []


@queue_and_group
async def test_a_renewed_lease_does_not_run_out(stand: Stand) -> None:
    claim = await stand.running()
    for _ in range(5):
        await stand.advance(LEASE * 0.8)
        assert await stand.renew(claim) == [Renewal.KEPT]
        assert await stand.reclaim() == []
    assert await stand.status(claim.id) is JobStatus.RUNNING


async def test_a_renewed_lease_is_a_full_one_from_now(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE / 2)
    await stand.renew(claim)
    await stand.advance(LEASE - 5)
    assert await stand.reclaim() == []
    await stand.advance(6)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_renewing_twice_does_not_add_up(stand: Stand) -> None:
    claim = await stand.running()
    await stand.renew(claim)
    await stand.renew(claim)
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [claim.id]


async def test_only_the_renewed_of_several_claims_live_on(stand: Stand) -> None:
    kept, forgotten = await stand.running(), await stand.running()
    await stand.advance(LEASE * 0.6)
    await stand.renew(kept)
    await stand.advance(LEASE * 0.6)
    assert [recovery.id for recovery in await stand.reclaim()] == [forgotten.id]
    assert await stand.status(kept.id) is JobStatus.RUNNING


async def test_renewing_raises_no_count(stand: Stand) -> None:
    claim = await stand.running()
    for _ in range(10):
        await stand.renew(claim)
    await stand.settle(claim, Released(claim.state))
    assert (await stand.claim_one(claim.id)).state == FRESH


async def test_a_renewed_claim_keeps_its_token(stand: Stand) -> None:
    claim = await stand.running()
    await stand.renew(claim)
    assert await stand.settle_done(claim, value=b"42") == "kept"


async def test_a_settled_claim_is_lost(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle_done(claim)
    assert await stand.renew(claim) == [Renewal.LOST]


async def test_a_retrying_claim_is_lost(stand: Stand) -> None:
    claim = await stand.running()
    await stand.settle(claim, retry())
    assert await stand.renew(claim) == [Renewal.LOST]
    assert await stand.status(claim.id) is JobStatus.RETRYING


@queue_and_group
async def test_a_reclaimed_claim_is_lost(stand: Stand) -> None:
    claim = await stand.running()
    await stand.lose(claim)
    assert await stand.renew(claim) == [Renewal.LOST]
    assert await stand.status(claim.id) is JobStatus.QUEUED


async def test_a_claim_that_another_holds_by_now_is_lost_and_not_prolonged(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    holder = await stand.claim_one(former.id, consumer="worker-2")
    await stand.advance(LEASE * 0.6)
    assert await stand.renew(former) == [Renewal.LOST]
    assert (await stand.look(holder.id)).worker == "worker-2"
    await stand.advance(LEASE * 0.6)
    assert [recovery.worker for recovery in await stand.reclaim()] == ["worker-2"]


async def test_a_former_claim_of_the_same_worker_is_lost(stand: Stand) -> None:
    former = await stand.running()
    await stand.settle(former, Released())
    holder = await stand.claim_one(former.id)
    assert await stand.renew(former, holder) == [Renewal.LOST, Renewal.KEPT]


async def test_a_lease_that_ran_out_can_be_renewed_until_it_is_reclaimed(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE * 3)
    assert await stand.renew(claim) == [Renewal.KEPT]
    assert await stand.reclaim() == []


@pytest.mark.whole("one claim need not empty several parts")
async def test_each_claim_of_many_is_answered_in_its_place(stand: Stand) -> None:
    await stand.append(*[stand.message() for _ in range(250)])
    claims: list[Claim] = []
    while len(claims) < 250:  # a claim may bring fewer than it could
        claims += await stand.claim(250 - len(claims))
    for claim in claims[::10]:
        await stand.settle_done(claim)
    answers = await stand.renew(*claims)
    assert [answer is Renewal.LOST for answer in answers] == [index % 10 == 0 for index in range(250)]


async def test_claims_of_several_streams_are_renewed_together(stand: Stand) -> None:
    sources = [stand.source, await stand.queue("second"), await stand.queue("third")]
    for source in sources * 2:
        await stand.add(source=source)
    claims = await stand.claim(sources=sources)
    await stand.advance(LEASE * 0.6)
    assert await stand.renew(*claims) == [Renewal.KEPT] * 6
    await stand.advance(LEASE * 0.6)
    assert await stand.reclaim(sources=sources) == []


async def test_a_running_message_that_is_to_be_cancelled_is_told_at_its_renewal(stand: Stand) -> None:
    claim, other = await stand.running(), await stand.running()
    await stand.backend.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    assert await stand.renew(claim, other) == [Renewal.CANCELLED, Renewal.KEPT]
    assert await stand.renew(claim) == [Renewal.CANCELLED]


async def test_a_claim_that_is_to_be_cancelled_is_still_held(stand: Stand) -> None:
    claim = await stand.running()
    await stand.backend.cancel(stand.stream, claim.id, ttl_us=HOUR_US)
    for _ in range(3):
        await stand.advance(LEASE * 0.8)
        await stand.renew(claim)
        assert await stand.reclaim() == []


async def test_leases_are_kept_while_the_event_loop_is_blocked(stand: Stand) -> None:
    claim = await stand.running()
    keeper = stand.backend.lease_keeper()
    answers: list[list[Renewal]] = []

    async def renew() -> None:
        answers.append(await keeper.renew([claim]))
        await keeper.close()

    thread = threading.Thread(target=lambda: asyncio.run(renew()))
    thread.start()
    thread.join()  # here, so that this loop cannot help, as when a handler blocks it
    assert answers == [[Renewal.KEPT]]


async def test_a_lease_keeper_connects_anew_after_it_was_closed(stand: Stand) -> None:
    claim = await stand.running()
    keeper = stand.backend.lease_keeper()
    for _ in range(2):
        assert await keeper.renew([claim]) == [Renewal.KEPT]
        await keeper.close()


async def test_closing_a_lease_keeper_twice_is_harmless(stand: Stand) -> None:
    keeper = stand.backend.lease_keeper()
    await keeper.close()
    await keeper.close()


async def test_two_lease_keepers_do_not_disturb_each_other(stand: Stand) -> None:
    claim = await stand.running()
    first, second = stand.backend.lease_keeper(), stand.backend.lease_keeper()
    assert await first.renew([claim]) == [Renewal.KEPT]
    await first.close()
    assert await second.renew([claim]) == [Renewal.KEPT]
    await second.close()
