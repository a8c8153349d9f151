"""Several processes do the same thing at once: it happens once, and every answer is true."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from headrace.core.messages.message import UniqueKey
from headrace.core.messages.outcome import Released, Settlement, Verdict
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, kept, queue_and_group, retry
from headrace.testing.contract.kit.waits import started


async def _processes(stand: Stand, count: int = 4) -> list[StreamRouter]:
    return [stand.backend, *[await stand.other() for _ in range(count - 1)]]


async def test_an_id_that_several_append_at_once_is_taken_once(stand: Stand) -> None:
    backends = await _processes(stand)
    batches = [
        stand.batch(*[stand.message(f"job-{number}") for number in range(20)], producer=f"producer-{each}")
        for each in range(len(backends))
    ]
    answers = await asyncio.gather(
        *[backend.append(batch) for backend, batch in zip(backends, batches, strict=True)]
    )
    verdicts = Counter(answer.verdict for each in answers for answer in each)
    assert verdicts == {"accepted": 20, "duplicate": 60}
    assert len(await stand.claim()) == 20


async def test_a_unique_key_that_several_want_at_once_goes_to_one(stand: Stand) -> None:
    backends = await _processes(stand)
    batches = [
        stand.batch(stand.message(unique=UniqueKey("nightly")), producer=f"producer-{each}")
        for each in range(len(backends))
    ]
    answers = await asyncio.gather(
        *[backend.append(batch) for backend, batch in zip(backends, batches, strict=True)]
    )
    (holder,) = await stand.claim_ids()
    assert {answer.id for (answer,) in answers} == {holder}
    assert sorted(answer.verdict for (answer,) in answers) == ["accepted", *["duplicate"] * 3]


@pytest.mark.whole("a limit holds for each part")
async def test_a_limit_holds_when_several_append_at_once(stand: Stand) -> None:
    backends = await _processes(stand)
    batches = [
        stand.batch(*[stand.message() for _ in range(10)], producer=f"producer-{each}", limit=25)
        for each in range(len(backends))
    ]
    answers = await asyncio.gather(
        *[backend.append(batch) for backend, batch in zip(backends, batches, strict=True)]
    )
    verdicts = Counter(answer.verdict for each in answers for answer in each)
    assert verdicts == {"accepted": 25, "full": 15}
    assert (await stand.counts()).queued == 25


async def test_a_batch_sent_again_while_the_first_is_under_way_is_taken_once(stand: Stand) -> None:
    batch = stand.batch(*[stand.message() for _ in range(20)])
    answers = await asyncio.gather(*[backend.append(batch) for backend in await _processes(stand)])
    assert all(each == answers[0] for each in answers)
    assert (await stand.counts()).queued == 20


@queue_and_group
async def test_the_success_of_two_holders_at_once_counts_once(stand: Stand) -> None:
    former = await stand.running()
    await stand.lose(former)
    other = await stand.other()
    holder = await stand.claim_one(former.id, consumer="worker-2", by=other)
    verdicts = await asyncio.gather(
        stand.settle(former, kept(b"former")), stand.settle(holder, kept(b"holder"), by=other)
    )
    assert sorted(verdicts) == [Verdict.GONE, Verdict.KEPT]
    expected = b"former" if verdicts[0] is Verdict.KEPT else b"holder"
    assert (await stand.look(former.id)).result == expected


async def test_a_settlement_sent_twice_at_once_counts_once(stand: Stand) -> None:
    claim = await stand.running()
    other = await stand.other()
    verdicts = await asyncio.gather(stand.settle(claim, retry()), stand.settle(claim, retry(), by=other))
    assert sorted(verdicts) == [Verdict.KEPT, Verdict.LOST]
    assert (await stand.counts()).retrying == 1


async def test_a_success_and_a_recovery_at_once_leave_nothing_to_run(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    other = await stand.other()
    verdict, _ = await asyncio.gather(
        stand.settle(claim, kept(b"42")), other.reclaim([stand.source], limit=10)
    )
    assert verdict is Verdict.KEPT
    assert await stand.claim() == []
    assert (await stand.look(claim.id)).result == b"42"


async def test_a_failure_and_a_recovery_at_once_do_not_both_count(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    other = await stand.other()
    verdict, reclaimed = await asyncio.gather(
        stand.settle(claim, retry(delay=0)), other.reclaim([stand.source], limit=10)
    )
    assert (verdict is Verdict.KEPT) == (not reclaimed.recovered)
    state = (await stand.claim_one(claim.id)).state
    assert state.failures + state.crashes == 1


async def test_a_lease_renewed_and_reclaimed_at_once_is_either_kept_or_lost(stand: Stand) -> None:
    claim = await stand.running()
    await stand.advance(LEASE + 1)
    other = await stand.other()
    (renewal,), reclaimed = await asyncio.gather(stand.renew(claim), other.reclaim([stand.source], limit=10))
    assert (renewal == "lost") == bool(reclaimed.recovered)
    expected = JobStatus.QUEUED if reclaimed.recovered else JobStatus.RUNNING
    assert await stand.status(claim.id) is expected


async def test_a_cancellation_and_a_claim_at_once_do_not_lose_the_message(stand: Stand) -> None:
    id = await stand.add()
    other = await stand.other()
    answer, claims = await asyncio.gather(
        stand.backend.cancel(stand.stream, id, ttl_us=HOUR_US), stand.claim(by=other)
    )
    if claims:
        assert answer is CancelAnswer.REQUESTED
        await stand.settle(claims[0], Released(), by=other)
    else:
        assert answer is CancelAnswer.REMOVED
    assert await stand.status(id) is JobStatus.CANCELLED


async def test_a_dead_letter_that_several_replay_at_once_is_queued_once(stand: Stand) -> None:
    claim = await stand.running()
    await stand.die(claim)
    answers = await asyncio.gather(
        *[backend.replay(stand.stream, [claim.id]) for backend in await _processes(stand)]
    )
    assert Counter(answer for each in answers for answer in each) == {
        ReplayAnswer.REPLAYED: 1,
        ReplayAnswer.GONE: 3,
    }
    assert await stand.claim_ids() == [claim.id]


async def test_what_several_purge_at_once_is_counted_once(stand: Stand) -> None:
    await stand.append(*[stand.message(delay=10 * (number % 2)) for number in range(40)])
    purged = await asyncio.gather(
        *[backend.purge(stand.stream, ttl_us=0, limit=100) for backend in await _processes(stand)]
    )
    assert sum(purged) == 40
    assert await stand.claim() == []


async def test_work_that_flows_through_several_processes_is_done_exactly_once(stand: Stand) -> None:
    backends = await _processes(stand, 3)
    done: Counter[str] = Counter()

    async def produce(number: int) -> None:
        for step in range(10):
            messages = [stand.message(f"{number}-{step}-{each}") for each in range(5)]
            batch = stand.batch(*messages, producer=f"producer-{number}")
            await backends[number].append(batch)

    async def work(number: int) -> None:
        while done.total() < 150:
            claims = await stand.claim(7, consumer=f"worker-{number}", by=backends[number], wait=0.05)
            settlements = [Settlement(claim, kept(claim.id.encode())) for claim in claims]
            for claim, verdict in zip(claims, await backends[number].settle(settlements), strict=True):
                assert verdict is Verdict.KEPT
                done[claim.id] += 1

    await asyncio.wait_for(asyncio.gather(*map(produce, range(3)), *map(work, range(3))), 30)
    assert len(done) == 150
    assert set(done.values()) == {1}


async def test_a_cancelled_look_leaves_its_answer_to_no_other(stand: Stand) -> None:
    ids = [await stand.add() for _ in range(10)]
    cancelled = 0
    for first, second in list(pairwise(ids)) * 20:
        looking = await started(stand.backend.get(stand.stream, first))
        looking.cancel()
        record = await stand.backend.get(stand.stream, second)
        assert record is not None
        assert record.id == second
        await asyncio.wait([looking])
        cancelled += looking.cancelled()  # on a busy machine, the answer may be there before
        if cancelled == 10:
            break
