"""Jobs of one key run one at a time, in the order in which they were enqueued."""

from __future__ import annotations

import pytest

from headrace.admin.place import Place
from headrace.admin.steering.dead_letters import DeadLetterVerbs, chosen_letters
from headrace.core.messages.outcome import Done, Outcome, Released, Settlement, Snoozed
from headrace.core.records.answers import CancelAnswer, DeadFilter, ReplayAnswer
from headrace.core.records.record import ORDER_KEY, JobStatus
from headrace.core.store import CRASH_LIMIT
from headrace.testing.contract.kit.stand import HOUR_US, LEASE, Stand, retry
from headrace.testing.contract.kit.waits import LONG, claimed, started

from .kit import declare, limited

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("limiting")]


async def add_keyed(stand: Stand, *ids: str, key: str = "a") -> None:
    await stand.append(*[stand.message(id, key=key) for id in ids])


async def test_of_a_key_one_runs_at_a_time(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2", "a3")
    for id in ("a1", "a2", "a3"):
        (claim,) = await stand.claim()
        assert claim.id == id
        assert await stand.claim(consumer="worker-2") == []
        await stand.settle_done(claim)


async def test_different_keys_run_side_by_side(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    await add_keyed(stand, "b1", key="b")
    plain = await stand.add()
    assert set(await stand.claim_ids()) == {"a1", "b1", plain}


@pytest.mark.parametrize(
    "outcome", [retry(delay=0), Released(), Snoozed(retry().state, 0)], ids=["retry", "release", "snooze"]
)
async def test_a_run_that_is_repeated_keeps_its_place(stand: Stand, outcome: Outcome) -> None:
    await add_keyed(stand, "a1", "a2")
    claim = await stand.claim_one("a1")
    await stand.settle(claim, outcome)
    await stand.settle_done(await stand.claim_one("a1"))
    await stand.claim_one("a2")


async def test_a_retry_in_the_future_keeps_its_place(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    await stand.retry(await stand.claim_one("a1"), delay=10)
    assert await stand.claim() == []
    await stand.advance(11)
    await stand.promote()
    await stand.settle_done(await stand.claim_one("a1"))
    await stand.claim_one("a2")


async def test_a_crash_keeps_its_place(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    await stand.lose(await stand.claim_one("a1"))
    assert await stand.claim_ids() == ["a1"]


async def test_a_dead_letter_lets_the_next_in(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    await stand.die(await stand.claim_one("a1"))
    claim = await stand.claim_one("a2")
    assert await stand.backend.replay(stand.stream, ["a1"]) == [ReplayAnswer.REPLAYED]
    assert await stand.claim() == []
    await stand.settle_done(claim)
    await stand.claim_one("a1")


@pytest.mark.parametrize("named", [False, True], ids=["all", "by id"])
async def test_many_dead_letters_are_replayed_as_they_died(stand: Stand, named: bool) -> None:
    ids = ["a2", "a3", "a1"]
    await add_keyed(stand, *ids)
    for id in ids:
        await stand.die(await stand.claim_one(id))
        await stand.advance(1)
    listed = await stand.backend.dead_letters(stand.stream, only=DeadFilter())
    only = [letter.id for letter in listed] if named else None
    chosen = chosen_letters(only, Place(stand.stream.name), None, None)
    assert await DeadLetterVerbs(stand.backend).replay(chosen) == 3
    for id in ids:
        await stand.settle_done(await stand.claim_one(id))


async def test_the_crash_limit_lets_the_next_in(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    for _ in range(CRASH_LIMIT):
        await stand.claim_one("a1")
        await stand.advance(LEASE + 1)
        await stand.reclaim()
    assert await stand.claim_ids() == ["a2"]


async def test_a_cancelled_one_lets_the_next_in(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2", "a3")
    assert await stand.backend.cancel(stand.stream, "a2", ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await stand.backend.cancel(stand.stream, "a1", ttl_us=HOUR_US) is CancelAnswer.REMOVED
    assert await stand.claim_ids() == ["a3"]


async def test_a_delayed_one_takes_its_place_when_it_is_due(stand: Stand) -> None:
    await stand.add("late", delay=10, key="a")
    await add_keyed(stand, "a1", "a2")
    claim = await stand.claim_one("a1")
    await stand.advance(11)
    await stand.promote()
    assert await stand.claim() == []
    await stand.settle_done(claim)
    await stand.settle_done(await stand.claim_one("a2"))
    await stand.claim_one("late")


async def test_a_waiting_claim_is_woken_by_the_end_before(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2")
    claim = await stand.claim_one("a1")
    waiting = await started(stand.claim(consumer="worker-2", wait=LONG))
    await stand.settle_done(claim)
    assert await claimed(waiting) == ["a2"]


async def test_parked_jobs_are_queued(stand: Stand) -> None:
    await add_keyed(stand, "a1", "a2", "a3")
    await stand.claim_one("a1")
    assert [await stand.status(id) for id in ("a2", "a3")] == [JobStatus.QUEUED] * 2
    counts = await stand.counts()
    assert counts.queued == 2
    assert 0 < counts.oldest_us <= stand.now_us()
    page = await stand.backend.messages(stand.stream, status=JobStatus.QUEUED)
    assert {(record.id, record.waiting_for) for record in page} == {("a2", ORDER_KEY), ("a3", ORDER_KEY)}
    assert (await stand.look("a2")).waiting_for == ORDER_KEY


async def test_a_purge_takes_parked_jobs_too(stand: Stand) -> None:
    await add_keyed(stand, *[f"a{number}" for number in range(30)])
    claim = await stand.claim_one("a0")
    purged = 0
    while count := await stand.backend.purge(stand.stream, ttl_us=HOUR_US, limit=7):
        purged += count
    assert purged == 29
    await stand.settle_done(claim)
    assert await stand.claim() == []
    await add_keyed(stand, "new")
    await stand.claim_one("new")


async def test_the_whole_order_holds_under_retries(stand: Stand) -> None:
    for number in range(40):
        await add_keyed(stand, f"{number}", key=f"k{number % 4}")
    done: list[str] = []
    turn = 0
    while claims := await stand.claim(3):
        turn += 1
        if turn % 3 == 0:
            await stand.backend.settle([Settlement(claim, retry(claim.state, delay=0)) for claim in claims])
        else:
            await stand.backend.settle([Settlement(claim, Done()) for claim in claims])
            done += [claim.id for claim in claims]
    assert len(done) == 40
    for key in range(4):
        assert [id for id in done if int(id) % 4 == key] == [str(number) for number in range(key, 40, 4)]


async def test_order_and_limits_hold_together(stand: Stand) -> None:
    await declare(stand, "all", max_running=1)
    for number in range(4):
        await stand.append(
            stand.message(f"a{number}", key="a", constraints=limited("all")),
            stand.message(f"b{number}", key="b", constraints=limited("all")),
        )
    order: list[str] = []
    while claims := await stand.claim():
        assert len(claims) == 1
        order += [claim.id for claim in claims]
        await stand.settle_done(claims[0])
    assert [id for id in order if id[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert [id for id in order if id[0] == "b"] == ["b0", "b1", "b2", "b3"]
