"""Messages with constraints move with their lines and their order, and with what waits behind them."""

from __future__ import annotations

import pytest

from headrace.core.moving.moving import START, StoredMessage, StoredPage
from headrace.core.records.answers import ReplayAnswer
from headrace.testing.contract.kit.stand import WORK, Stand, dead
from headrace.testing.contract.limits.kit import declare, limited, record_of

from .test_moving import SEAL, move, moving, target, unsealed

__all__ = ["target", "unsealed"]

pytestmark = [
    pytest.mark.whole("a move has streams as the store knows them, and parts are streams"),
    pytest.mark.usefixtures("limiting"),
]


async def test_jobs_stay_behind_a_holder_of_their_key_that_waits_for_its_retry(
    stand: Stand, target: Stand
) -> None:
    await stand.append(*[stand.message(id, key="a") for id in ("first", "second", "third")])
    await stand.retry(await stand.claim_one("first"), delay=50)

    await move(stand, target)

    await target.promote()
    assert await target.claim() == []
    await target.advance(51)
    await target.promote()
    for id in ("first", "second", "third"):
        (claim,) = await target.claim()
        assert claim.id == id
        await target.settle_done(claim)


async def test_lines_keep_their_order_over_many_pages(stand: Stand, target: Stand) -> None:
    await declare(stand, "a")
    names = [f"{number:03}" for number in range(450, 0, -1)]  # the order of queueing, not of ids
    messages = [
        stand.message(name, priority=2 - number % 3, constraints=limited("a"))
        for number, name in enumerate(names)
    ]
    await stand.append(*messages)

    await move(stand, target)

    expected = [message.id for priority in range(3) for message in messages if message.priority == priority]
    claimed: list[str] = []
    while claims := await target.claim():
        claimed += [claim.id for claim in claims]
    assert claimed == expected


async def test_a_moved_store_counts_nothing_and_the_target_counts_it(stand: Stand, target: Stand) -> None:
    for each in (stand, target):
        await declare(each, "stripe", max_running=1)
        await declare(each, "customer", max_running=1)
    for customer in ("1", "2"):
        await stand.append(
            *[stand.message(constraints=limited("stripe", f"customer={customer}")) for _ in range(3)]
        )
    await stand.retry(await stand.claim_one(), delay=50)
    claim = await stand.claim_one()
    assert await stand.claim() == []  # the lines are blocked
    await stand.settle_done(claim)

    await move(stand, target)

    of_source, of_target = [await record_of(each, "customer") for each in (stand, target)]
    assert (of_source.running, of_source.waiting, of_source.keys) == (0, 0, 0)
    assert (of_target.running, of_target.waiting, of_target.keys) == (0, 4, 2)
    (claim,) = await target.claim()
    assert (await record_of(target, "stripe")).running == 1
    assert await target.claim() == []
    await target.settle_done(claim)


async def test_a_store_that_was_moved_away_can_count_again(stand: Stand, target: Stand) -> None:
    await declare(stand, "stripe", max_running=1)
    await stand.append(*[stand.message(constraints=limited("stripe"), key="a") for _ in range(3)])
    await move(stand, target)
    await moving(stand).set_seal(None)
    await declare(stand, "stripe", max_running=1)

    await stand.append(*[stand.message(id, constraints=limited("stripe"), key="a") for id in ("one", "two")])

    for id in ("one", "two"):
        (claim,) = await stand.claim()
        assert claim.id == id
        await stand.settle_done(claim)


async def test_scheduled_and_dead_ones_are_limited_when_they_are_queued(stand: Stand, target: Stand) -> None:
    await declare(target, "stripe", max_running=1)
    died = await stand.add("died", constraints=limited("stripe"))
    claim = await stand.claim_one(died)
    await stand.settle(claim, dead(claim.state))
    await stand.add("later", delay=10, constraints=limited("stripe"))

    await move(stand, target)

    assert await target.backend.replay(WORK, [died]) == [ReplayAnswer.REPLAYED]
    await target.advance(11)
    await target.promote()
    (claim,) = await target.claim()
    assert (claim.id, claim.constraints) == ("died", limited("stripe"))
    await target.settle_done(claim)
    assert (await target.claim_one("later")).constraints == limited("stripe")


async def test_a_job_that_is_parked_waits_for_a_holder_that_comes_with_a_later_page(stand: Stand) -> None:
    store = moving(stand)

    def page(item: StoredMessage, after: str, following: str) -> StoredPage:
        return StoredPage((item,), after, following)

    now_us = stand.now_us()
    parked = StoredMessage("second", "greet", "parked", now_us, b"", order_key="a")
    holder = StoredMessage("first", "greet", "retrying", now_us, b"", order_key="a", holds_order=True)
    await store.import_page(WORK, page(parked, START, "next"), move=SEAL.move, origin=WORK)
    await stand.advance(10)
    await stand.promote()
    assert await stand.claim() == []

    await store.import_page(WORK, page(holder, "next", "end"), move=SEAL.move, origin=WORK)

    await stand.promote()
    for id in ("first", "second"):
        (claim,) = await stand.claim()
        assert claim.id == id
        await stand.settle_done(claim)
