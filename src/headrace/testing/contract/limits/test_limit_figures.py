"""The figures of limits: how they are declared, overridden and counted."""

from __future__ import annotations

import pytest

from headrace.core.messages.outcome import Done, Settlement
from headrace.core.records.answers import Answer
from headrace.testing.contract.kit.stand import Stand
from headrace.testing.contract.kit.waits import LONG, claimed, started

from .kit import add_all, declare, figures, limited, record_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]


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
