"""A message that is handed back with other constraints is counted by these from then on."""

from __future__ import annotations

import pytest

from headrace.core.limits.paused_tasks import pause_of
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.outcome import Done, Outcome, Released, Verdict
from headrace.core.records.record import JobStatus
from headrace.testing.contract.kit.heartbeats import beat
from headrace.testing.contract.kit.stand import HOUR_US, Stand, worker_info
from headrace.testing.contract.kit.waits import LONG, claimed, started

from .kit import add_all, declare, figures, limited, of_tenant, record_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]


def with_constraints(claim: Claim, constraints: Constraints) -> Outcome:
    return Released(claim.state, unstarted=True, constraints=constraints)


async def relabel(stand: Stand, constraints: Constraints) -> list[Claim]:
    """Give all messages that are ready these constraints."""
    claims = await stand.claim()
    for claim in claims:
        assert await stand.settle(claim, with_constraints(claim, constraints)) is Verdict.KEPT
    return claims


@pytest.mark.whole("parts have no common order")
async def test_a_message_without_constraints_is_counted_from_then_on(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    ids = [await stand.add() for _ in range(3)]
    await relabel(stand, limited("stripe"))

    counts = await stand.counts()
    assert (counts.queued, counts.running) == (3, 0)
    for id in ids:
        (claim,) = await stand.claim()
        assert (claim.id, claim.constraints) == (id, limited("stripe"))
        assert await stand.claim(consumer="worker-2") == []
        await stand.settle_done(claim)
    record = await record_of(stand, "stripe")
    assert (record.running, record.waiting) == (0, 0)


async def test_it_waits_while_nothing_may_run_and_names_the_limit(stand: Stand) -> None:
    await declare(stand, "paused", max_running=0)
    id = await stand.add()
    await relabel(stand, limited("paused"))
    assert await stand.claim() == []
    assert (await stand.look(id)).waiting_for == "paused"

    await stand.backend.declare_limits([figures("paused")])

    assert await stand.claim_ids() == [id]


async def test_a_heartbeat_says_which_tasks_are_paused(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    await stand.backend.declare_limits([pause_of("send", paused=True), pause_of("read", paused=True)])
    assert (await beat(stand.backend, worker_info())).paused_tasks == {"send", "read"}

    await stand.backend.declare_limits([pause_of("send", paused=False)])

    assert (await beat(stand.backend, worker_info())).paused_tasks == {"read"}


async def test_it_wakes_a_worker_that_waits(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await stand.add("one")
    claim = await stand.claim_one("one")
    waiting = await started(stand.claim(wait=LONG, consumer="worker-2"))
    await stand.settle(claim, with_constraints(claim, limited("stripe")))
    assert await claimed(waiting) == ["one"]


async def test_it_goes_to_the_lane_of_its_priority(stand: Stand) -> None:
    low = await stand.add(priority=2)
    await relabel(stand, limited("stripe"))
    normal = await stand.add()
    assert await stand.claim_ids(1) == [normal]
    assert await stand.claim_ids(1) == [low]


@pytest.mark.whole("parts have no common order")
async def test_it_stands_behind_the_others_of_its_line(stand: Stand) -> None:
    await stand.add("unknown")
    claim = await stand.claim_one("unknown")
    first, second = await add_all(stand, 2, limited("stripe"))
    await stand.settle(claim, with_constraints(claim, limited("stripe")))
    assert await stand.claim_ids() == [first, second, "unknown"]


@pytest.mark.whole("parts have no common order")
async def test_slots_and_tokens_of_the_earlier_limits_come_back(stand: Stand) -> None:
    await declare(stand, "old", max_running=1, rate="1/h")
    await declare(stand, "new", max_running=0)
    first, second = await add_all(stand, 2, limited("old=a"))
    claim = await stand.claim_one(first)
    assert await stand.claim() == []

    await stand.settle(claim, with_constraints(claim, limited("old=a", "new")))

    assert await stand.claim_ids() == [second]
    old, new = await record_of(stand, "old"), await record_of(stand, "new")
    assert (old.running, old.waiting, new.running, new.waiting) == (1, 1, 0, 1)


@pytest.mark.whole("parts have no common order")
async def test_the_same_constraints_may_be_given_again(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    id, _ = await add_all(stand, 2, limited("stripe"))
    claim = await stand.claim_one(id)
    await stand.settle(claim, with_constraints(claim, limited("stripe")))
    claims = await stand.claim()
    assert len(claims) == 1
    record = await record_of(stand, "stripe")
    assert (record.running, record.waiting) == (1, 1)


@pytest.mark.whole("parts have no common order")
async def test_a_tenant_takes_turns_from_then_on(stand: Stand) -> None:
    many = await add_all(stand, 3, of_tenant("acme"))
    one = await stand.add()
    taken = {claim.id: claim for claim in await stand.claim()}
    for id in (*many, one):
        tenant = "other" if id == one else "acme"
        await stand.settle(taken[id], with_constraints(taken[id], of_tenant(tenant)))
    assert one in await stand.claim_ids(2)


async def test_nothing_changes_for_a_worker_that_has_lost_its_lease(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    claim = await stand.running("one")
    await stand.lose(claim)
    assert await stand.settle(claim, with_constraints(claim, limited("stripe"))) is Verdict.LOST
    again = await stand.claim_one("one")
    assert again.constraints is None
    assert (await record_of(stand, "stripe")).waiting == 0


async def test_a_message_whose_cancellation_was_asked_for_ends(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    claim = await stand.running("one")
    await stand.backend.cancel(stand.stream, "one", ttl_us=HOUR_US)
    assert await stand.settle(claim, with_constraints(claim, limited("stripe"))) is Verdict.KEPT
    assert (await stand.look("one")).status is JobStatus.CANCELLED
    assert (await record_of(stand, "stripe")).waiting == 0


async def test_it_keeps_its_order_key(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    await stand.append(stand.message("a1", key="a"), stand.message("a2", key="a"))
    await relabel(stand, limited("stripe"))
    assert await stand.claim() == []
    await declare(stand, "stripe", max_running=5)
    await stand.settle_done(await stand.claim_one("a1"))
    await stand.claim_one("a2")


async def test_it_can_be_cancelled_and_purged_while_it_waits(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    for _ in range(3):
        await stand.add()
    first, *_ = await relabel(stand, limited("stripe=k"))
    await stand.backend.cancel(stand.stream, first.id, ttl_us=0)
    assert await stand.backend.purge(stand.stream, ttl_us=0, limit=100) == 2
    record = await record_of(stand, "stripe")
    assert (record.waiting, record.keys) == (0, 0)


async def test_a_late_success_ends_it(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=0)
    claim = await stand.running("one")
    await stand.lose(claim)
    await relabel(stand, limited("stripe"))
    assert await stand.settle(claim, Done()) is Verdict.KEPT
    assert (await record_of(stand, "stripe")).waiting == 0


async def test_a_late_success_gives_back_the_slots_of_the_new_constraints(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await declare(stand, "paypal", max_running=1)
    await stand.add(constraints=limited("stripe"))
    (early,) = await relabel(stand, limited("paypal"))
    (later,) = await stand.claim()
    assert await stand.settle(early, Done()) is Verdict.KEPT
    assert await stand.settle(later, Done()) is Verdict.GONE
    for name in ("stripe", "paypal"):
        assert (await record_of(stand, name)).running == 0


async def test_limits_can_be_listed_without_their_counts(stand: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await add_all(stand, 2, limited("stripe=k"))
    await stand.claim()
    await stand.backend.set_limit("stripe", figures("stripe", max_running=7))
    (record,) = await stand.backend.limits(counted=False)
    assert (record.figures.max_running, record.is_overridden) == (7, True)
