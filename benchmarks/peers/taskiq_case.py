"""taskiq's InMemoryBroker, which runs tasks in this process as they are sent."""

import asyncio
import json
import statistics
import sys
import time

from taskiq import InMemoryBroker

scale = float(sys.argv[1])
broker = InMemoryBroker(max_stored_results=10, max_async_tasks=100)
began_at = {}


@broker.task
async def noop() -> None:
    pass


@broker.task
async def stamp(number: int) -> None:
    began_at[number] = time.perf_counter()


async def main():
    await broker.startup()
    number = max(10, int(10_000 * scale))
    began = time.perf_counter()
    for _ in range(number):
        await noop.kiq()
    sent = time.perf_counter()
    await broker.wait_all()
    figures = {
        "enqueue one by one": number / (sent - began),
        "drain no-op": number / (time.perf_counter() - began),
    }
    samples = []
    for sample in range(max(10, int(300 * scale))):
        began = time.perf_counter()
        await stamp.kiq(sample)
        await broker.wait_all()
        samples.append((began_at[sample] - began) * 1000)
    figures["pick-up p50, ms"] = statistics.median(samples)
    await broker.shutdown()
    print(json.dumps(figures), flush=True)


asyncio.run(main())
