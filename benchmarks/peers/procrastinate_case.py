"""procrastinate: a hundred jobs at a time, what succeeded is deleted; bulk by batch_defer_async."""

import asyncio
import logging
import sys
import time

import procrastinate
from postgres_case import PostgresPeer
from producing_case import run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


class Procrastinate(PostgresPeer):
    async def open(self):
        await app.open_async()
        await app.schema_manager.apply_schema_async()

    async def close(self):
        await app.close_async()

    async def send(self):
        await noop.defer_async()

    async def send_many(self, number):
        for start in range(0, number, 500):
            await noop.batch_defer_async(*({} for _ in range(min(500, number - start))))

    async def send_nap(self):
        await nap.defer_async()

    async def send_stamp(self, number):
        await stamp.defer_async(number=number)

    async def work(self):
        await app.run_worker_async(concurrency=100, delete_jobs="successful", install_signal_handlers=False)


peer = Procrastinate(url)


@app.task
async def noop():
    peer.done += 1


@app.task
async def nap():
    await asyncio.sleep(0.001)
    peer.done += 1


@app.task
async def stamp(number):
    peer.began_at[number] = time.perf_counter()


run(peer, scale)
