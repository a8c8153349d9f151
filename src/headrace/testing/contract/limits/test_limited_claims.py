"""What a claim takes of messages with limits, and what else happens to those that wait."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.outcome import Done, Settlement
from headrace.core.records.answers import CancelAnswer
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.stand import HOUR_US, Stand
from headrace.testing.contract.kit.waits import LONG, claimed, started

from .kit import add_all, declare, limited, record_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]

several_queues = pytest.mark.one_place("on a cluster, a limit covers queues of one hash tag")


async def test_a_claim_takes_no_more_constrained_messages_than_it_wants(stand: Stand) -> None:
    await add_all(stand, 5, limited("stripe"))
    plain = {await stand.add() for _ in range(3)}
    claims = await stand.claim(constrained=2)
    assert sum(claim.constraints is not None for claim in claims) == 2
    assert plain <= {claim.id for claim in claims}
    assert await stand.claim(constrained=0) == []


async def test_neither_kind_delays_the_other(stand: Stand) -> None:
    await add_all(stand, 100, limited("stripe"))
    await stand.append(*[stand.message() for _ in range(100)])
    claims = await stand.claim(10)
    assert 0 < sum(claim.constraints is not None for claim in claims) < 10


async def test_neither_kind_delays_the_other_where_slots_become_free_one_by_one(stand: Stand) -> None:
    await add_all(stand, 40, limited("stripe"))
    await stand.append(*[stand.message() for _ in range(40)])
    claims = [await stand.claim_one() for _ in range(30)]
    assert 10 <= sum(claim.constraints is not None for claim in claims) <= 20


async def test_a_claim_says_what_constrains_it(stand: Stand) -> None:
    constraints = limited("stripe", "customer=a", tenant="acme")
    await stand.add(constraints=constraints)
    assert (await stand.claim_one()).constraints == constraints


async def test_child_work_has_limits_too(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=2)
    for _ in range(3):
        await stand.add(child=True, constraints=limited("stripe"))
    assert await stand.claim(children=0) == []
    assert len(await stand.claim(children=1)) == 1
    assert len(await stand.claim()) == 1
    assert await stand.claim() == []


async def test_processes_that_claim_at_once_stay_within_the_limit(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=7)
    await add_all(stand, 60, limited("stripe"))
    backends = [stand.backend, *[await stand.other() for _ in range(3)]]
    ids: list[str] = []

    async def work(number: int) -> None:
        while claims := await stand.claim(3, consumer=f"worker-{number}", by=backends[number]):
            assert (await record_of(stand, "stripe")).running <= 7
            ids.extend(claim.id for claim in claims)
            await backends[number].settle([Settlement(claim, Done()) for claim in claims])

    while (await stand.counts()).queued:
        await asyncio.gather(*map(work, range(4)))
    assert len(ids) == len(set(ids)) == 60
    record = await record_of(stand, "stripe")
    assert (record.running, record.waiting) == (0, 0)


async def test_a_waiting_claim_is_woken_by_a_slot(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    first, second = await add_all(stand, 2, limited("stripe"))
    (claim,) = await stand.claim()
    waiting = await started(stand.claim(consumer="worker-2", wait=LONG, by=await stand.other()))
    await stand.settle_done(claim)
    assert await claimed(waiting) == [({first, second} - {claim.id}).pop()]


async def test_a_waiting_claim_is_woken_by_a_message_with_constraints(stand: Stand) -> None:
    waiting = await started(stand.claim(wait=LONG))
    id = await stand.add(constraints=limited("stripe"))
    assert await claimed(waiting) == [id]


@several_queues
async def test_a_slot_in_one_queue_wakes_a_claim_in_another(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 1, limited("stripe"))
    (claim,) = await stand.claim()
    there = await stand.add(source=elsewhere, constraints=limited("stripe"))
    waiting = await started(stand.claim(sources=[elsewhere], consumer="worker-2", wait=LONG))
    await stand.settle_done(claim)
    assert await claimed(waiting) == [there]


async def test_a_slot_that_comes_back_is_not_kept_for_child_work(stand: Stand) -> None:
    """A worker may have no child process for it."""
    await declare(stand, "all", max_running=1)
    await stand.append(stand.message("first", constraints=limited("all")))
    claim = await stand.claim_one("first")
    await stand.append(stand.message("child", constraints=limited("all"), child=True))
    await stand.append(stand.message("other", constraints=limited("all")))
    assert await stand.claim() == []
    await stand.settle_done(claim)
    assert [claim.id for claim in await stand.claim(children=0)] == ["other"]


# --- what else happens to waiting messages -----------------------------------------------------------------


async def test_a_cancelled_message_lets_the_next_in(stand: Stand) -> None:
    """A line was opened for a free slot, and its only message is cancelled before it is claimed."""
    await declare(stand, "all", max_running=1)
    await add_all(stand, 1, limited("all"))
    (claim,) = await stand.claim()
    (first,) = await add_all(stand, 1, limited("all", "customer=a"))
    (second,) = await add_all(stand, 1, limited("all", "customer=b"))
    assert await stand.claim() == []
    await stand.settle_done(claim)
    assert await stand.backend.cancel(stand.stream, first, ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await stand.claim_ids() == [second]


async def test_a_purge_ends_waiting_messages_and_holds_no_slot(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 30, limited("stripe"))
    (claim,) = await stand.claim()
    purged = 0
    while count := await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=10):
        purged += count
    assert purged == 29
    record = await record_of(stand, "stripe")
    assert (record.running, record.waiting) == (1, 0)
    await stand.settle_done(claim)
    await add_all(stand, 1, limited("stripe"))
    assert len(await stand.claim()) == 1


async def test_waiting_messages_are_queued_and_say_for_what_they_wait(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    ids = await add_all(stand, 3, limited("stripe"))
    (claim,) = await stand.claim()
    assert await stand.claim() == []
    others = [await stand.look(id) for id in ids if id != claim.id]
    assert {(record.status, record.waiting_for) for record in others} == {(JobStatus.QUEUED, "stripe")}
    assert (await stand.look(claim.id)).waiting_for == ""
    counts = await stand.counts()
    assert (counts.queued, counts.running) == (2, 1)
    assert counts.oldest_us > 0
    page = await stand.backend.messages(stand.stream, status=JobStatus.QUEUED)
    assert {record.id for record in page} == {record.id for record in others}


async def test_waiting_messages_count_toward_the_room_of_the_queue(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    messages = [stand.message(constraints=limited("stripe")) for _ in range(3)]
    answers = await stand.append(*messages, limit=2)
    if stand.parts == 1:
        assert [answer.verdict for answer in answers] == ["accepted", "accepted", "full"]


async def test_a_delayed_message_takes_its_limits_when_it_is_due(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    late = await stand.add(delay=10, constraints=limited("stripe"))
    await add_all(stand, 1, limited("stripe"))
    (claim,) = await stand.claim()
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim() == []
    await stand.settle_done(claim)
    assert await stand.claim_ids() == [late]


async def test_limited_and_plain_messages_that_are_due_together_are_promoted_together(stand: Stand) -> None:
    """Also when plain ones come first, so that the store has queued some before it meets a limited one."""
    await declare(stand, "stripe", max_running=1)
    await stand.add(delay=60)
    await stand.promote()  # a store may do more at the first one
    plain = [await stand.add(delay=delay) for delay in (1.0, 1.2, 1.6)]
    stripe = [await stand.add(delay=delay, constraints=limited("stripe")) for delay in (1.4, 1.8)]
    await stand.advance(2)
    assert (await stand.promote()).count == 5
    claimed = set(await stand.claim_ids())
    assert claimed - set(stripe) == set(plain)
    assert len(claimed & set(stripe)) == 1  # parts have no common order


@pytest.mark.whole("parts have no common order")
async def test_the_limit_of_a_promotion_holds_over_limited_and_plain_messages(stand: Stand) -> None:
    await stand.add(delay=60)
    await stand.promote()
    plain = [await stand.add(delay=delay) for delay in (1.0, 1.2)]
    first, _ = [await stand.add(delay=delay, constraints=limited("stripe")) for delay in (1.4, 1.6)]
    await stand.advance(2)
    promoted = await stand.promote(limit=3)
    assert (promoted.count, promoted.next_in_us) == (3, 0)
    assert set(await stand.claim_ids()) == {*plain, first}


async def test_a_replayed_message_has_its_limits_again(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe"))
    (claim,) = await stand.claim()
    await stand.die(claim)
    (other,) = await stand.claim()
    await stand.backend.replay(stand.stream, [claim.id])
    assert await stand.claim() == []
    await stand.settle_done(other)
    assert await stand.claim_ids() == [claim.id]


async def test_a_recovered_message_without_constraints_is_claimed_after_one_with_some(stand: Stand) -> None:
    await stand.add("limited", constraints=limited("customer=a"))
    await stand.settle_done(await stand.claim_one("limited"))
    await stand.add("plain")
    other = await stand.other()
    await stand.lose(await stand.claim_one("plain", consumer="worker-2", by=other))
    await stand.claim_one("plain")
