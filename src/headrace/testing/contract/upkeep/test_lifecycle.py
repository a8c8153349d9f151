"""Opening and closing a store. A claim outlives the backend that made it."""

from __future__ import annotations

import asyncio

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch
from headrace.core.messages.outcome import Verdict
from headrace.core.records.record import Counts, JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.kit.stand import LEASE, Stand


async def test_a_store_describes_itself(stand: Stand) -> None:
    assert stand.backend.description
    assert stand.under_test.name in stand.backend.description.lower()


async def test_a_closed_backend_may_be_opened_again(stand: Stand) -> None:
    id = await stand.add()
    await stand.backend.close()
    await stand.backend.open()
    assert await stand.claim_ids() == [id]


async def test_closing_twice_is_harmless(stand: Stand) -> None:
    other = await stand.other()
    await other.close()
    await other.close()


async def test_a_backend_that_was_never_opened_may_be_closed(stand: Stand) -> None:
    await stand.another().close()


async def test_closing_one_backend_leaves_the_others_alone(stand: Stand) -> None:
    other = await stand.other()
    id = await stand.add()
    await other.close()
    assert await stand.claim_ids() == [id]


async def test_a_twin_is_the_same_store_with_a_life_of_its_own(stand: Stand) -> None:
    def elsewhere() -> None:
        async def add() -> None:
            twin = stand.backend.for_other_loop()
            await twin.open()
            await twin.append(Batch(stand.stream, new_id(), 1, [stand.message("added")]))
            await twin.close()

        asyncio.run(add())

    await asyncio.to_thread(elsewhere)
    assert await stand.claim_ids() == ["added"]


async def test_another_namespace_is_another_store(stand: Stand) -> None:
    id = await stand.add()
    stranger = stand.another(namespace=new_id())
    await stranger.open()
    try:
        await stranger.declare_stream(stand.source, microseconds(LEASE))
        assert await stand.claim(by=stranger) == []
        assert await stranger.get(stand.stream, id) is None
        assert await stranger.counts(stand.stream) == Counts()
    finally:
        await stranger.close()


async def test_a_claim_outlives_the_backend_that_made_it(stand: Stand) -> None:
    id = await stand.add()
    other = await stand.other()
    claim = await stand.claim_one(by=other)
    await other.close()
    assert await stand.status(id) is JobStatus.RUNNING
    assert await stand.settle_done(claim) is Verdict.KEPT


async def test_the_claims_of_a_closed_backend_run_out(stand: Stand) -> None:
    id = await stand.add()
    other = await stand.other()
    await stand.claim_one(by=other)
    await other.close()
    await stand.advance(LEASE + 1)
    assert [recovery.id for recovery in await stand.reclaim()] == [id]


async def test_a_waiting_claim_comes_back_when_its_backend_is_closed(stand: Stand) -> None:
    other = await stand.other()
    waiting = asyncio.ensure_future(stand.claim(by=other, wait=50))
    for _ in range(3):
        await asyncio.sleep(0)
    await other.close()
    done, _ = await asyncio.wait([waiting], timeout=10)
    assert done
    assert waiting.exception() or waiting.result() == []
