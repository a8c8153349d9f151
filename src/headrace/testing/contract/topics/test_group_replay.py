"""Ordered groups that are reset during their work: of each key the newest event runs last."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial

import pytest

from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Done, Settlement
from headrace.core.records.answers import ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.topics.topic import BEGINNING, NEW, Start
from headrace.engine.app_loop.retrying import with_retries
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.waits import claimed
from headrace.testing.waiting import wait_until


@pytest.fixture
async def group(orders: Orders) -> Stream:
    return await orders.join(ordered=True)


async def set_back(orders: Orders, group: Stream, event: str | None = None) -> None:
    start = BEGINNING if event is None else Start("event", event=event)
    assert await orders.backend.reset(group, start)


async def test_old_events_come_after_what_runs_and_before_it_comes_again(
    orders: Orders, group: Stream
) -> None:
    await orders.publish("a1", "a2", "a3", "a4", "a5", key="a")
    for id in ("a1", "a2"):
        await orders.done([await orders.claim_one(group, id)])
    running = await orders.claim_one(group, "a3")
    assert await orders.claim(group) == []  # a4 and a5 are parked
    await set_back(orders, group)
    assert await orders.claim(group) == []
    await orders.done([running])
    assert await orders.finish(group) == ["a1", "a2", "a3", "a4", "a5"]


async def test_other_keys_are_set_back_at_once(orders: Orders, group: Stream) -> None:
    await orders.publish_keys(a1="a", b1="b", a2="a", b2="b")
    await orders.done([claim for claim in await orders.claim(group) if claim.id == "b1"])
    await set_back(orders, group)
    assert await orders.claim_ids(group) == ["b1"]


async def test_an_event_that_waits_to_run_again_does_so_first(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.done([await orders.claim_one(group, "a1")])
    await orders.stand.retry(await orders.claim_one(group, "a2"))
    await set_back(orders, group)
    assert await orders.claim(group) == []
    await orders.stand.advance(11)
    await orders.stand.promote(sources=[group])
    assert await orders.finish(group) == ["a2", "a1", "a2", "a3"]


@pytest.mark.whole("parts have no order among each other")
async def test_what_waits_in_a_lane_is_drawn_anew_in_its_turn(orders: Orders, group: Stream) -> None:
    await orders.publish_keys(a1="a", b1="b", c1="c", x="")
    assert len(await orders.claim(group, 1)) == 1
    await set_back(orders, group)
    assert sorted(await orders.claim_ids(group)) == ["b1", "c1", "x"]


async def test_what_waits_before_the_new_position_stays(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", "a4", key="a")
    running = await orders.claim_one(group, "a1")
    assert await orders.claim(group) == []
    await set_back(orders, group, "a3")
    await orders.done([running])
    assert await orders.finish(group) == ["a2", "a3", "a4"]


async def test_a_group_that_is_set_to_the_end_handles_what_it_has(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    running = await orders.claim_one(group, "a1")
    assert await orders.claim(group) == []
    await orders.backend.reset(group, NEW)
    await orders.publish("a3", key="a")
    await orders.done([running])
    assert await orders.finish(group) == ["a2", "a3"]


async def test_dead_letters_are_passed_over(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.stand.die(await orders.claim_one(group, "a1"))
    running = await orders.claim_one(group, "a2")
    await set_back(orders, group)
    assert await orders.claim(group) == []
    await orders.stand.die(running)
    assert await orders.finish(group) == ["a3"]
    assert await orders.status(group, "a2") is JobStatus.DEAD


async def test_a_dead_letter_that_is_replayed_comes_again_in_its_turn(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.done([await orders.claim_one(group, "a1")])
    await orders.stand.die(await orders.claim_one(group, "a2"))
    await orders.done([await orders.claim_one(group, "a3")])
    assert await orders.backend.replay(group, ["a2"]) == [ReplayAnswer.REPLAYED]
    await set_back(orders, group)
    assert await orders.finish(group) == ["a2", "a1", "a2", "a3"]


async def test_what_is_published_meanwhile_comes_last(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    await orders.done([await orders.claim_one(group, "a1")])
    running = await orders.claim_one(group, "a2")
    await set_back(orders, group)
    await orders.publish("a3", key="a")
    assert await orders.claim(group) == []
    await orders.done([running])
    await orders.publish("a4", key="a")
    assert await orders.finish(group) == ["a1", "a2", "a3", "a4"]


async def test_a_group_may_be_set_back_again_meanwhile(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", "a3", key="a")
    await orders.done([await orders.claim_one(group, "a1")])
    running = await orders.claim_one(group, "a2")
    await set_back(orders, group)
    assert await orders.claim(group) == []
    await set_back(orders, group)
    await orders.done([running])
    first = await orders.claim_one(group, "a1")
    await set_back(orders, group, "a2")
    await orders.done([first])
    assert await orders.finish(group) == ["a2", "a3"]


async def test_what_runs_does_not_come_again_after_a_purge(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", "a2", key="a")
    running = await orders.claim_one(group, "a1")
    await set_back(orders, group)
    assert await orders.claim(group) == []
    while await orders.backend.purge(group, ttl_us=0, limit=50):
        pass
    await orders.done([running])
    await orders.publish("a3", key="a")
    assert await orders.finish(group) == ["a3"]


async def test_a_group_that_was_set_back_wakes_a_claim(orders: Orders, group: Stream) -> None:
    await orders.publish("a1", key="a")
    await orders.finish(group)
    claiming = await orders.start_claiming(group, by=await orders.stand.other())
    await set_back(orders, group)
    assert await claimed(claiming) == ["a1"]


async def test_many_that_wait_are_drawn_anew(orders: Orders, group: Stream) -> None:
    keys = {f"{key:03}-{number}": f"{key:03}" for number in range(3) for key in range(400)}
    for start in range(0, len(keys), 400):
        await orders.publish_keys(**dict(list(keys.items())[start : start + 400]))
    running = await orders.claim(group, 10)
    await set_back(orders, group)
    await orders.done(running)
    seen: defaultdict[str, list[str]] = defaultdict(list)
    for id in await orders.finish(group):
        seen[keys[id]].append(id)
    assert seen == {key: [f"{key}-{number}" for number in range(3)] for key in keys.values()}


async def test_members_at_work_end_with_the_newest_event_of_each_key(orders: Orders, group: Stream) -> None:
    backends = [orders.backend, *[await orders.stand.other() for _ in range(2)]]
    keys = {f"{key}-{number:02}": key for number in range(15) for key in "abcd"}
    await orders.publish_keys(**keys)
    seen: defaultdict[str, list[str]] = defaultdict(list)
    held: set[str] = set()
    handled = 0

    async def is_over() -> bool:
        counts = await orders.backend.counts(group)
        return not (counts.queued or counts.running)

    async def work(by: StreamRouter, consumer: str) -> None:
        nonlocal handled
        while handled < 40 or not await is_over():
            claims = await with_retries(lambda: orders.claim(group, 2, consumer=consumer, wait=0.02, by=by))
            for claim in claims:
                assert keys[claim.id] not in held, f"{claim.id} beside another of its key"
                held.add(keys[claim.id])
                seen[keys[claim.id]].append(claim.id)
            await asyncio.sleep(0)
            held.difference_update(keys[claim.id] for claim in claims)
            settlements = [Settlement(claim, Done()) for claim in claims]
            await with_retries(partial(by.settle, settlements))
            handled += len(claims)

    async def turn_back() -> None:
        await wait_until(lambda: handled >= 10)
        await set_back(orders, group)
        await wait_until(lambda: handled >= 30)
        await set_back(orders, group)

    members = [work(by, f"worker-{number}") for number, by in enumerate(backends)]
    await asyncio.gather(turn_back(), *members)
    for key in "abcd":
        order = [f"{key}-{number:02}" for number in range(15)]
        assert seen[key][-15:] == order
