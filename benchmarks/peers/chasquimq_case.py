"""ChasquiMQ (a core in Rust, handlers in Python) at its default settings. It needs Redis 8.6."""

import logging
import sys
import time

from chasquimq import Queue, Worker
from producing_case import Peer, run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
url = url.removesuffix("/0")


class Chasqui(Peer):
    async def open(self):
        self._queue = Queue("bench", redis_url=url)

    async def close(self):
        await self._queue.close()

    async def send(self):
        await self._queue.add("noop", None)

    async def send_many(self, number):
        for start in range(0, number, 1000):
            jobs = [{"name": "noop", "data": None} for _ in range(min(1000, number - start))]
            await self._queue.add_bulk(jobs)

    async def send_stamp(self, number):
        await self._queue.add("stamp", number)

    async def work(self):
        worker = Worker("bench", handle, redis_url=url)
        try:
            await worker.run()
        finally:
            await worker.close()


peer = Chasqui()


async def handle(job):
    if job.name == "noop":
        peer.done += 1
    else:
        peer.began_at[job.data] = time.perf_counter()


run(peer, scale)
