"""FastStream on Redis streams, with a group and a consumer: as `benchmarks/events.py`, in the same amounts.

At its defaults a subscriber reads all there is at once, handles one event after the other, and acknowledges
each by a command of its own. Its logger, which writes two lines for each event, is off.
"""

import asyncio
import json
import sys
import time

import uvloop
from faststream.redis import RedisBroker, StreamSub

url, scale = sys.argv[1], float(sys.argv[2])

# As in benchmarks/events.py.
PAYLOAD = {"order": 4711, "customer": "ada@example.org", "total": 19.99, "items": ["tea", "cup"]}
ONE_BY_ONE, MANY, CONSUMED, SHARED = 3_000, 50_000, 20_000, 10_000
PORTION = BATCH = 500
SETTLED_WITHIN = 10.0

# As many as a subscription of ours handles at a time, unless it says otherwise.
IN_FLIGHT = 64


class Count:
    def __init__(self, awaited):
        self.awaited = awaited
        self.done = 0
        self.reached = asyncio.Event()

    def add(self, number):
        self.done += number
        if self.done == self.awaited:
            self.reached.set()


async def figures_of(scale):
    def amount(number):
        return max(PORTION, int(number * scale))

    figures = await one_by_one(max(10, int(ONE_BY_ONE * scale)))
    figures |= await consumed("consume, 1 group", amount(CONSUMED), ["g"], each)
    figures |= await consumed("consume, 3 groups", amount(SHARED), ["a", "b", "c"], each)
    figures |= await consumed("consume, batch", amount(MANY), ["g"], in_batches, "publish_many")
    figures |= await consumed("consume, one batch", amount(MANY), ["g"], in_one_batch)
    figures |= await consumed("consume, 64 workers", amount(CONSUMED), ["g"], side_by_side)
    return figures


async def one_by_one(number):
    broker = RedisBroker(url, logger=None)
    async with broker:
        await broker.publish(PAYLOAD, stream="one-by-one")  # connections are made
        began = time.perf_counter()
        for _ in range(number):
            await broker.publish(PAYLOAD, stream="one-by-one")
        return {"publish one by one": number / (time.perf_counter() - began)}


async def consumed(figure, number, groups, subscribe, publishing=""):
    broker = RedisBroker(url, logger=None)
    count = Count(number * len(groups))
    for group in groups:
        subscribe(broker, figure, group, count)
    async with broker:  # connects, and starts no subscriber
        client = await broker.connect()
        published = await publish_many(broker, client, figure, number)
        began = time.perf_counter()
        await broker.start()
        await count.reached.wait()
        rate = count.awaited / (time.perf_counter() - began)
        await all_settled(client, figure, len(groups))
    assert count.done == count.awaited, f"{figure}: {count.done} events instead of {count.awaited}"
    return {figure: rate} | ({publishing: published} if publishing else {})


async def publish_many(broker, client, stream, number):
    """Its way for streams: a pipeline (`publish_batch` is for lists)."""
    began = time.perf_counter()
    for start in range(0, number, PORTION):
        async with client.pipeline(transaction=False) as pipeline:
            for _ in range(min(PORTION, number - start)):
                await broker.publish(PAYLOAD, stream=stream, pipeline=pipeline)
            await pipeline.execute()
    return number / (time.perf_counter() - began)


async def all_settled(client, stream, groups):
    async with asyncio.timeout(SETTLED_WITHIN):
        while True:
            found = await client.xinfo_groups(stream)
            if len(found) == groups and not any(group["pending"] or group.get("lag") for group in found):
                return
            await asyncio.sleep(0.01)


def each(broker, stream, group, count):
    @broker.subscriber(stream=from_the_beginning(stream, group))
    async def handle(event: dict):
        count.add(1)


def side_by_side(broker, stream, group, count):
    @broker.subscriber(stream=from_the_beginning(stream, group), max_workers=IN_FLIGHT)
    async def handle(event: dict):
        count.add(1)


def in_batches(broker, stream, group, count):
    @broker.subscriber(stream=from_the_beginning(stream, group, batch=True, max_records=BATCH))
    async def handle(events: list[dict]):
        count.add(len(events))


def in_one_batch(broker, stream, group, count):
    @broker.subscriber(stream=from_the_beginning(stream, group, batch=True))
    async def handle(events: list[dict]):
        count.add(len(events))


def from_the_beginning(stream, group, **options):
    """`last_id` is where it makes a group begin that is not there yet; it then reads what is new to it."""
    return StreamSub(stream, group=group, consumer="c", last_id="0", **options)


print(json.dumps(uvloop.run(figures_of(scale))), flush=True)
