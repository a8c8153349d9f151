"""arq at its default settings: ten jobs at a time, the queue polled twice a second."""

import logging
import sys
import time

from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker
from producing_case import Peer, run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
settings = RedisSettings.from_dsn(url)


class Arq(Peer):
    async def open(self):
        self._pool = await create_pool(settings)

    async def close(self):
        await self._pool.aclose()

    async def send(self):
        await self._pool.enqueue_job("noop")

    async def send_stamp(self, number):
        await self._pool.enqueue_job("stamp", number)

    async def work(self):
        functions = [func(noop, name="noop"), func(stamp, name="stamp")]
        worker = Worker(functions, redis_settings=settings, handle_signals=False)
        await worker.async_run()


peer = Arq()


async def noop(context):
    peer.done += 1


async def stamp(context, number):
    peer.began_at[number] = time.perf_counter()


run(peer, scale / 2)  # a hundred jobs a poll, two polls a second: the rest would take a minute
