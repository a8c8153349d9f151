"""Oban for Python: one queue with a hundred jobs at a time; bulk by enqueue_many."""

import asyncio
import logging
import sys
import time

from oban import Oban, job
from oban.schema import install
from postgres_case import PostgresPeer
from producing_case import run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)


class ObanPeer(PostgresPeer):
    async def open(self):
        self._pool = await Oban.create_pool(dsn=url, min_size=2, max_size=8)
        await install(self._pool)
        self._client = Oban(pool=self._pool, name="client")
        await self._client.start()

    async def close(self):
        await self._client.stop()
        await self._pool.close()

    async def send(self):
        await self._client.enqueue(noop.new())

    async def send_many(self, number):
        for start in range(0, number, 500):
            await self._client.enqueue_many(noop.new() for _ in range(min(500, number - start)))

    async def send_nap(self):
        await self._client.enqueue(nap.new())

    async def send_stamp(self, number):
        await self._client.enqueue(stamp.new(number))

    async def work(self):
        async with Oban(pool=self._pool, name="worker", queues={"default": 100}):
            await asyncio.Event().wait()


peer = ObanPeer(url)


@job(queue="default")
async def noop():
    peer.done += 1


@job(queue="default")
async def nap():
    await asyncio.sleep(0.001)
    peer.done += 1


@job(queue="default")
async def stamp(number):
    peer.began_at[number] = time.perf_counter()


run(peer, scale)
