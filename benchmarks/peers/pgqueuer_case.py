"""PgQueuer on asyncpg, in batches of a hundred; bulk by lists, as its documentation shows."""

import asyncio
import logging
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries
from postgres_case import PostgresPeer
from producing_case import run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)


class Queuer(PostgresPeer):
    async def open(self):
        self._pool = await asyncpg.create_pool(url, min_size=2, max_size=8)
        self._worker_pool = await asyncpg.create_pool(url, min_size=2, max_size=8)
        self._queries = Queries.from_asyncpg_pool(self._pool)
        await self._queries.install()

    async def close(self):
        await self._pool.close()
        self._worker_pool.terminate()

    async def send(self):
        await self._queries.enqueue("noop", b"")

    async def send_many(self, number):
        for start in range(0, number, 500):
            count = min(500, number - start)
            await self._queries.enqueue(["noop"] * count, [b""] * count, [0] * count)

    async def send_nap(self):
        await self._queries.enqueue("nap", b"")

    async def send_stamp(self, number):
        await self._queries.enqueue("stamp", str(number).encode())

    async def work(self):
        pgq = PgQueuer.from_asyncpg_pool(self._worker_pool)

        @pgq.entrypoint("noop")
        async def noop(job):
            self.done += 1

        @pgq.entrypoint("nap")
        async def nap(job):
            await asyncio.sleep(0.001)
            self.done += 1

        @pgq.entrypoint("stamp")
        async def stamp(job):
            self.began_at[int(job.payload)] = time.perf_counter()

        await pgq.run(batch_size=100)


run(Queuer(url), scale)
