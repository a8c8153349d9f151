"""Chancy with its asyncio executor, a hundred jobs at a time, and eager polling."""

import asyncio
import logging
import sys
import time

from chancy import Chancy, Queue, Worker, job
from postgres_case import PostgresPeer
from producing_case import run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)


class ChancyPeer(PostgresPeer):
    async def open(self):
        self._chancy = await Chancy(url).__aenter__()
        await self._chancy.migrate()
        await self._chancy.declare(
            Queue(
                "default",
                concurrency=100,
                executor="chancy.executors.asyncex.AsyncExecutor",
                eager_polling=True,
                polling_interval=1,
            )
        )

    async def close(self):
        await self._chancy.__aexit__(None, None, None)

    async def send(self):
        await self._chancy.push(noop)

    async def send_many(self, number):
        async for _ in self._chancy.push_many([noop.job for _ in range(number)], batch_size=500):
            pass

    async def send_nap(self):
        await self._chancy.push(nap)

    async def send_stamp(self, number):
        await self._chancy.push(stamp.job.with_kwargs(number=number))

    async def work(self):
        async with Worker(self._chancy, register_signal_handlers=False) as worker:
            await worker.wait_for_shutdown()


peer = ChancyPeer(url)


@job()
async def noop():
    peer.done += 1


@job()
async def nap():
    await asyncio.sleep(0.001)
    peer.done += 1


@job()
async def stamp(*, number: int):
    peer.began_at[number] = time.perf_counter()


run(peer, scale / 2)
