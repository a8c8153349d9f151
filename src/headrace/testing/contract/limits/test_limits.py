"""Limits on how many messages run at once: what counts, and what starts when a slot is free."""

from __future__ import annotations

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
from headrace.core.records.record import JobStatus
from headrace.core.store import CLAIM_BYTES, CRASH_LIMIT
from headrace.testing.contract.kit.stand import HOUR_US, Stand, dead, retry

from .kit import add_all, declare, limited, record_of

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


# --- lanes and order ---------------------------------------------------------------------------------------


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


# --- one budget for several queues -------------------------------------------------------------------------


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
