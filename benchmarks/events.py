"""What is measured of events on a store; `peers/faststream_case.py` does the same with the same amounts.

Everything is published before the worker starts, and a group begins at the beginning. A figure counts events
that a handler was given, those of all groups together, from before the start of the worker until the last
one; that each was acknowledged is looked up afterwards, and a run in which one was not is no figure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from headrace import App, Topic

Figures = dict[str, float]
Payload = dict[str, Any]

#: What every event carries; FastStream's carry the same.
PAYLOAD: Payload = {"order": 4711, "customer": "ada@example.org", "total": 19.99, "items": ["tea", "cup"]}

#: Of a scale of 1. With three groups each event counts three times.
ONE_BY_ONE, MANY, CONSUMED, SHARED = 3_000, 50_000, 20_000, 10_000
PORTION = BATCH = 500

#: Seconds in which the last acknowledgements must be written.
SETTLED_WITHIN = 10.0


class Count:
    """How many events the handlers were given."""

    def __init__(self, awaited: int) -> None:
        self.awaited = awaited
        self.done = 0
        self.reached = asyncio.Event()

    def add(self, number: int) -> None:
        self.done += number
        if self.done == self.awaited:
            self.reached.set()


async def events(url: str, scale: float) -> Figures:
    """Every measure, each with a topic of its own."""

    def amount(number: int) -> int:
        return max(PORTION, int(number * scale))

    figures = await _one_by_one(url, max(10, int(ONE_BY_ONE * scale)))
    figures |= await _consumed(url, "consume, 1 group", amount(CONSUMED), ["g"], _each)
    figures |= await _consumed(url, "consume, 3 groups", amount(SHARED), ["a", "b", "c"], _each)
    batches = await _consumed(url, "consume, batch", amount(MANY), ["g"], _in_batches, "publish_many")
    return figures | batches


async def _one_by_one(url: str, number: int) -> Figures:
    """A lone publisher that waits for each event to be stored."""
    async with App(url) as app:
        topic = app.topic("one-by-one", Payload)
        await topic.publish(PAYLOAD)  # connections are made
        began = time.perf_counter()
        for _ in range(number):
            await topic.publish(PAYLOAD)
        return {"publish one by one": number / (time.perf_counter() - began)}


async def _consumed(
    url: str,
    figure: str,
    number: int,
    groups: list[str],
    subscribe: Callable[[Topic[Payload], str, Count], None],
    publishing: str = "",
) -> Figures:
    """Publish, then consume; `publishing` names the figure of the former where it is wanted."""
    async with App(url) as app:
        topic = app.topic(figure.replace(", ", "-").replace(" ", "-"), Payload)
        count = Count(number * len(groups))
        for group in groups:
            subscribe(topic, group, count)
        published = await _publish_many(topic, number)
        began = time.perf_counter()
        async with app.worker():
            await count.reached.wait()
            rate = count.awaited / (time.perf_counter() - began)
            await _all_settled(app, topic.name, len(groups))
    if count.done != count.awaited:
        raise RuntimeError(f"{figure}: {count.done} events instead of {count.awaited}")
    return {figure: rate} | ({publishing: published} if publishing else {})


async def _publish_many(topic: Topic[Payload], number: int) -> float:
    began = time.perf_counter()
    for start in range(0, number, PORTION):
        await topic.publish_many([PAYLOAD] * min(PORTION, number - start))
    return number / (time.perf_counter() - began)


async def _all_settled(app: App, topic: str, groups: int) -> None:
    async with asyncio.timeout(SETTLED_WITHIN):
        while await _unsettled(app, topic, groups):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _unsettled(app: App, name: str, groups: int) -> bool:
    [topic] = [each for each in await app.admin.topics() if each.name == name]
    left = sum(each.lag + each.running + each.retrying + each.dead for each in topic.groups)
    return left > 0 or len(topic.groups) != groups


def _each(topic: Topic[Payload], group: str, count: Count) -> None:
    @topic.subscribe(group=group, start="beginning")
    async def handle(event: Payload) -> None:
        count.add(1)


def _in_batches(topic: Topic[Payload], group: str, count: Count) -> None:
    @topic.subscribe(group=group, start="beginning", batch=BATCH)
    async def handle(events: list[Payload]) -> None:
        count.add(len(events))
