"""Limits on how many messages run at once: what counts, what waits, and what starts when a slot is free."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.messages.message import HIGH, LOW
from headrace.core.messages.outcome import (
    Cancelled,
    Done,
    Expired,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.answers import Answer, CancelAnswer
from headrace.core.records.record import JobStatus
from headrace.core.store import CLAIM_BYTES, CRASH_LIMIT
from headrace.testing.contract.kit.stand import HOUR_US, Stand, dead, retry
from headrace.testing.contract.kit.waits import LONG, claimed, started

from .kit import add_all, declare, figures, limited, record_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]

several_queues = pytest.mark.one_place("on a cluster, a limit covers queues of one hash tag")


async def test_no_more_run_than_the_limit_allows(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=3)
    await add_all(stand, 10, limited("stripe"))
    assert len(await stand.claim()) == 3
    assert await stand.claim(consumer="worker-2", by=await stand.other()) == []


@pytest.mark.whole("parts have no common order")
async def test_a_slot_that_comes_back_goes_to_the_next(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=2)
    ids = await add_all(stand, 5, limited("stripe"))
    first, second = await stand.claim()
    assert [first.id, second.id] == ids[:2]
    await stand.settle_done(first)
    assert await stand.claim_ids() == ids[2:3]
    await stand.settle_done(second)
    assert await stand.claim_ids() == ids[3:4]


async def test_a_message_without_the_limit_passes(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 3, limited("stripe"))
    await stand.claim()
    plain = await stand.add()
    other = await stand.add(constraints=limited("mail"))
    assert set(await stand.claim_ids()) == {plain, other}


async def test_a_limit_that_is_not_declared_limits_nothing(stand: Stand) -> None:
    await add_all(stand, 5, limited("stripe"))
    assert len(await stand.claim()) == 5


async def test_each_key_has_a_budget_of_its_own(stand: Stand) -> None:
    await declare(stand, "customer", max_running=1)
    for key in ("a", "b", "c"):
        await add_all(stand, 3, limited(f"customer={key}"))
    claims = await stand.claim()
    assert len({claim.constraints for claim in claims}) == len(claims) == 3


async def test_a_message_takes_all_of_its_limits_or_none(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=2)
    await declare(stand, "customer", max_running=1)
    await add_all(stand, 2, limited("stripe", "customer=a"))
    (held,) = await stand.claim()
    assert (await record_of(stand, "stripe")).running == 1
    (other,) = await add_all(stand, 1, limited("stripe", "customer=b"))
    assert await stand.claim_ids() == [other]
    assert (await record_of(stand, "stripe")).running == 2
    await stand.settle_done(held)
    assert len(await stand.claim()) == 1


OUTCOMES: list[Outcome] = [
    Done(),
    Released(),
    retry(delay=0),
    retry(),
    Snoozed(retry().state, 10),
    dead(),
    Cancelled(HOUR_US),
    Expired(HOUR_US),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
async def test_every_settlement_gives_the_slot_back(stand: Stand, outcome: Outcome) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe"))
    (claim,) = await stand.claim()
    assert await stand.settle(claim, outcome) is Verdict.KEPT
    assert (await record_of(stand, "stripe")).running == 0
    assert len(await stand.claim()) == 1
    assert (await record_of(stand, "stripe")).running == 1


async def test_a_repeated_settlement_gives_one_slot_back(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=2)
    await add_all(stand, 4, limited("stripe"))
    first, _ = await stand.claim()
    await stand.settle_done(first)
    await stand.settle_done(first)
    assert await stand.settle(first, Released()) is Verdict.LOST
    assert (await record_of(stand, "stripe")).running == 1


async def test_a_lost_lease_gives_the_slot_back(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe"))
    (claim,) = await stand.claim()
    await stand.lose(claim)
    assert (await record_of(stand, "stripe")).running == 0
    (again,) = await stand.claim()
    assert again.id == claim.id
    assert await stand.claim() == []


async def test_the_end_by_crashes_gives_the_slot_back(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await stand.add(constraints=limited("stripe"))
    for _ in range(CRASH_LIMIT):
        (claim,) = await stand.claim()
        await stand.lose(claim)
    assert await stand.status(claim.id) is JobStatus.DEAD
    assert (await record_of(stand, "stripe")).running == 0


async def test_a_late_success_ends_the_run_of_another_worker(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe"))
    (first,) = await stand.claim()
    await stand.lose(first)
    (second,) = await stand.claim(consumer="worker-2")
    assert second.id == first.id
    assert await stand.settle_done(first) is Verdict.KEPT
    assert (await record_of(stand, "stripe")).running == 0
    assert await stand.settle_done(second) is Verdict.GONE
    assert (await record_of(stand, "stripe")).running == 0
    assert len(await stand.claim()) == 1


async def test_a_late_success_of_a_waiting_message_counts_nothing(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 1, limited("stripe"))
    (first,) = await stand.claim()
    await stand.lose(first)
    assert await stand.settle_done(first) is Verdict.KEPT
    record = await record_of(stand, "stripe")
    assert (record.running, record.waiting) == (0, 0)


# --- lanes and order --------------------------------------------------------------------------------------


@pytest.mark.whole("parts have no common order")
async def test_waiting_messages_go_by_priority_and_then_by_their_order(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    (running,) = await add_all(stand, 1, limited("stripe"))
    (claim,) = await stand.claim()
    low = await add_all(stand, 1, limited("stripe"), priority=LOW)
    normal = await add_all(stand, 2, limited("stripe"))
    high = await add_all(stand, 1, limited("stripe"), priority=HIGH)
    assert await stand.claim() == []
    order: list[str] = []
    for _ in range(4):
        await stand.settle_done(claim)
        (claim,) = await stand.claim()
        order.append(claim.id)
    assert order == [*high, *normal, *low]
    assert running not in order


@pytest.mark.whole("parts have no common order")
async def test_lines_of_several_keys_go_by_their_order(stand: Stand) -> None:
    await declare(stand, "all", max_running=1)
    ids = [(await add_all(stand, 1, limited("all", f"customer={number % 3}")))[0] for number in range(9)]
    order: list[str] = []
    while claims := await stand.claim():
        order += [claim.id for claim in claims]
        await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
    assert order == ids


async def test_a_claim_is_bounded_in_bytes_whatever_came_before(stand: Stand) -> None:
    large = 900_000
    await stand.append(*[stand.message(constraints=limited("stripe")) for _ in range(30)])
    await stand.append(*[stand.message(constraints=limited("stripe"), body=bytes(large)) for _ in range(20)])
    sizes: list[int] = []
    while claims := await stand.claim(100):
        sizes += [len(claim.body) for claim in claims]
        assert sum(len(claim.body) for claim in claims) < CLAIM_BYTES + large
    assert sorted(sizes) == [5] * 30 + [large] * 20


async def test_one_line_delays_no_other(stand: Stand) -> None:
    """A line that a full limit blocks is passed, also by those that share another limit with it."""
    await declare(stand, "all", max_running=2)
    await declare(stand, "customer", max_running=1)
    await add_all(stand, 3, limited("all", "customer=a"))
    await add_all(stand, 1, limited("all", "customer=b"))
    claims = await stand.claim()
    assert {claim.constraints for claim in claims} == {
        limited("all", "customer=a"),
        limited("all", "customer=b"),
    }


async def test_a_blocked_line_takes_the_slot_that_another_leaves(stand: Stand) -> None:
    """Lines wait for `all`. The first of them then finds its customer busy: the next must get the slot."""
    await declare(stand, "all", max_running=2)
    await declare(stand, "customer", max_running=1)
    await add_all(stand, 1, limited("customer=a"))
    (busy,) = await stand.claim()
    await add_all(stand, 2, limited("all"))
    others = await stand.claim()
    assert len(others) == 2
    await add_all(stand, 2, limited("all", "customer=a"))
    (free,) = await add_all(stand, 1, limited("all", "customer=b"))
    assert await stand.claim() == []
    await stand.settle_done(others[0])
    assert await stand.claim_ids() == [free]
    await stand.settle_done(busy)
    assert await stand.claim() == []
    await stand.settle_done(others[1])
    assert len(await stand.claim()) == 1


# --- one budget for several queues ------------------------------------------------------------------------


@several_queues
async def test_a_limit_covers_several_queues(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await declare(stand, "stripe", max_running=3)
    await add_all(stand, 3, limited("stripe"))
    for _ in range(3):
        await stand.add(source=elsewhere, constraints=limited("stripe"))
    assert len(await stand.claim(sources=[stand.stream, elsewhere])) == 3
    assert await stand.claim(sources=[elsewhere]) == []


@several_queues
async def test_a_queue_without_a_worker_holds_no_slot(stand: Stand) -> None:
    """A slot comes back. The first message in line is in a queue that no worker serves, or is paused."""
    elsewhere = await stand.queue("elsewhere")
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 1, limited("stripe"))
    (claim,) = await stand.claim()
    await stand.add(source=elsewhere, constraints=limited("stripe"))
    (waiting,) = await add_all(stand, 1, limited("stripe"))
    assert await stand.claim(sources=[stand.stream, elsewhere]) == []
    await stand.settle_done(claim)
    assert await stand.claim_ids() == [waiting]


@several_queues
async def test_a_paused_queue_gives_nothing_and_holds_nothing(stand: Stand) -> None:
    elsewhere = await stand.queue("elsewhere")
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe"))
    (claim,) = await stand.claim()
    there = await stand.add(source=elsewhere, constraints=limited("stripe"))
    assert await stand.claim(sources=[stand.stream, elsewhere]) == []
    await stand.backend.pause(stand.stream, paused=True)
    await stand.settle_done(claim)
    assert await stand.claim_ids(sources=[stand.stream, elsewhere]) == [there]
    await stand.backend.pause(stand.stream, paused=False)
    assert await stand.claim() == []


# --- claims -----------------------------------------------------------------------------------------------


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


# --- what else happens to waiting messages ----------------------------------------------------------------


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


# --- figures ----------------------------------------------------------------------------------------------


async def test_the_newest_declaration_holds(stand: Stand) -> None:
    assert await stand.backend.declare_limits([figures("stripe", max_running=1)]) == []
    assert await stand.backend.declare_limits([figures("stripe", max_running=1)]) == []
    await add_all(stand, 5, limited("stripe"))
    assert len(await stand.claim()) == 1
    assert await stand.claim() == []
    other = await stand.other()
    assert await other.declare_limits([figures("stripe", max_running=3)]) == [
        figures("stripe", max_running=1)
    ]
    assert len(await stand.claim()) == 2


async def test_a_smaller_limit_holds_for_the_next(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=3)
    await add_all(stand, 5, limited("stripe"))
    claims = await stand.claim()
    await declare(stand, "stripe", max_running=1)
    await stand.settle_done(claims[0])
    await stand.settle_done(claims[1])
    assert await stand.claim() == []
    await stand.settle_done(claims[2])
    assert len(await stand.claim()) == 1


async def test_an_override_holds_until_it_is_cleared(stand: Stand) -> None:
    assert not await stand.backend.set_limit("stripe", figures("stripe", max_running=1))
    await declare(stand, "stripe", max_running=2)
    assert await stand.backend.set_limit("stripe", figures("stripe", max_running=0))
    await add_all(stand, 5, limited("stripe"))
    assert await stand.claim() == []
    await declare(stand, "stripe", max_running=3)
    assert await stand.claim() == []
    record = await record_of(stand, "stripe")
    assert (record.figures.max_running, record.is_overridden, record.waiting) == (0, True, 5)
    assert record.declared == figures("stripe", max_running=3)
    waiting = await started(stand.claim(wait=LONG))
    assert await stand.backend.set_limit("stripe", None)
    assert len(await claimed(waiting)) == 3
    assert not (await record_of(stand, "stripe")).is_overridden


async def test_limits_are_listed_with_what_they_count(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=2, rate="100/m", burst=50)
    await declare(stand, "customer", max_running=1)
    await add_all(stand, 2, limited("stripe", "customer=a"))
    await add_all(stand, 1, limited("stripe", "customer=b"))
    await stand.claim()
    by_customer, stripe = await stand.backend.limits()
    assert stripe.figures == figures("stripe", max_running=2, rate="100/m", burst=50)
    assert (stripe.running, stripe.waiting, stripe.keys) == (2, 1, 0)
    assert (by_customer.running, by_customer.waiting, by_customer.keys) == (2, 1, 2)


async def test_nothing_is_left_when_all_is_done(stand: Stand) -> None:
    await declare(stand, "customer", max_running=1)
    for key in range(20):
        await add_all(stand, 3, limited(f"customer={key}", tenant=f"tenant-{key % 4}"))
    done = 0
    while claims := await stand.claim(7):
        await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
        done += len(claims)
    assert done == 60
    record = await record_of(stand, "customer")
    assert (record.running, record.waiting, record.keys) == (0, 0, 0)
    assert (await stand.counts()).queued == 0


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


async def test_keys_that_only_wait_are_counted(stand: Stand) -> None:
    await declare(stand, "customer", max_running=1)
    await stand.append(*[stand.message(constraints=limited(f"customer={key}")) for key in ("a", "b", "b")])
    assert (await record_of(stand, "customer")).keys == 2


async def test_a_duplicate_leaves_nothing_of_its_constraints(stand: Stand) -> None:
    """The fixture looks for what is left."""
    id = await stand.add()
    answers = await stand.append(stand.message(id, constraints=limited("customer=a")))
    assert answers == [Answer(id, "duplicate")]


async def test_what_waits_during_a_prune_is_counted_and_recovered_later(stand: Stand) -> None:
    id = await stand.add(constraints=limited("customer=a"))
    await stand.backend.prune(limit=100)
    claim = await stand.claim_one(id)
    assert (await stand.counts()).running == 1
    await stand.lose(claim)


async def test_a_recovered_message_without_constraints_is_claimed_after_one_with_some(stand: Stand) -> None:
    await stand.add("limited", constraints=limited("customer=a"))
    await stand.settle_done(await stand.claim_one("limited"))
    await stand.add("plain")
    other = await stand.other()
    await stand.lose(await stand.claim_one("plain", consumer="worker-2", by=other))
    await stand.claim_one("plain")
