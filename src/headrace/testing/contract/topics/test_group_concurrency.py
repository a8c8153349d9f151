"""Several processes on the same topic at once: each group gets each event once, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace.core.messages.message import Stream
from headrace.core.messages.outcome import Done, Settlement, Verdict
from headrace.core.topics.topic import BEGINNING
from headrace.engine.streams import StreamRouter
from headrace.testing.contract.kit.orders import Orders
from headrace.testing.contract.kit.waits import LONG, SOON


async def _processes(orders: Orders, count: int = 4) -> list[StreamRouter]:
    return [orders.backend, *[await orders.stand.other() for _ in range(count - 1)]]


@pytest.mark.whole("parts have no order among each other")
async def test_groups_that_claim_at_once_each_get_everything(orders: Orders) -> None:
    groups = [await orders.join(name) for name in ("billing", "mail", "stock", "audit")]
    backends = await _processes(orders)
    ids = [f"event-{number}" for number in range(40)]
    await orders.publish(*ids)
    claims = await asyncio.gather(
        *[orders.claim(group, by=by) for group, by in zip(groups, backends, strict=True)]
    )
    assert [[claim.id for claim in each] for each in claims] == [ids] * 4


async def test_publishing_and_claiming_at_once_loses_nothing(orders: Orders) -> None:
    groups = [await orders.join("billing"), await orders.join("mail", ordered=True)]
    backends = await _processes(orders)
    ids = {f"{number}-{each}" for number in range(10) for each in range(8)}

    async def publish() -> None:
        for number in range(10):
            batch = [orders.event(f"{number}-{each}", key=str(each)) for each in range(8)]
            await orders.append(*batch)
            await asyncio.sleep(0)

    async def consume(group: Stream, consumer: str, by: StreamRouter, got: list[str]) -> None:
        while len(got) < len(ids):
            claims = await orders.claim(group, 5, consumer=consumer, by=by, wait=0.05)
            got += [claim.id for claim in claims]
            assert set(await by.settle([Settlement(claim, Done()) for claim in claims])) <= {Verdict.KEPT}

    billing: list[str] = []
    mail: list[str] = []
    working = asyncio.gather(
        publish(),
        consume(groups[0], "worker-1", backends[0], billing),
        consume(groups[0], "worker-2", backends[1], billing),
        consume(groups[1], "worker-3", backends[2], mail),
        consume(groups[1], "worker-4", backends[3], mail),
    )
    await asyncio.wait_for(working, LONG)
    assert Counter(billing) == Counter(mail) == Counter(ids)


async def test_one_event_goes_to_one_of_the_members_that_wait(orders: Orders) -> None:
    group = await orders.join()
    backends = await _processes(orders, 2)
    waiting = [
        asyncio.ensure_future(orders.claim(group, consumer=f"worker-{each}", by=by, wait=0.5))
        for each, by in enumerate(backends)
    ]
    await orders.publish("a")
    claims = await asyncio.wait_for(asyncio.gather(*waiting), SOON)
    assert [claim.id for each in claims for claim in each] == ["a"]


async def test_a_lost_group_that_several_find_again_is_found_once(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish("a", "b", "c")
    await orders.backend.remove_stream(group)
    backends = await _processes(orders)
    joined = await asyncio.gather(*[by.join(group, BEGINNING) for by in backends])
    assert sum(joined) == 1
    claims = await asyncio.gather(
        *[orders.claim(group, consumer=f"worker-{each}", by=by) for each, by in enumerate(backends)]
    )
    assert Counter(claim.id for each in claims for claim in each) == Counter(["a", "b", "c"])


@pytest.mark.whole("a length holds for each part")
async def test_several_that_trim_at_once_trim_once(orders: Orders) -> None:
    group = await orders.join()
    await orders.publish(*[f"event-{number}" for number in range(20)])
    await orders.finish(group)
    await orders.declare_topic(max_length=5)
    backends = await _processes(orders)
    tended = await asyncio.gather(*[by.keep_topics([group], limit=100) for by in backends])
    assert sum(each.trimmed for each in tended) == 15
    assert (await orders.record()).length == 5
