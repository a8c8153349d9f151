"""streaQ at its default settings: sixteen jobs at a time."""

import logging
import sys
import time

from producing_case import Peer, run
from streaq import Worker

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
worker = Worker(redis_url=url, handle_signals=False)


class Streaq(Peer):
    async def open(self):
        await worker.__aenter__()

    async def sent(self):
        await worker.__aexit__(None, None, None)  # running enters it anew

    async def send(self):
        await noop.enqueue()

    async def send_many(self, number):
        for start in range(0, number, 1000):
            await worker.enqueue_many([noop.enqueue() for _ in range(min(1000, number - start))])

    async def send_stamp(self, number):
        await stamp.enqueue(number)

    async def work(self):
        await worker.run_async()


peer = Streaq()


@worker.task
async def noop() -> None:
    peer.done += 1


@worker.task
async def stamp(number: int) -> None:
    peer.began_at[number] = time.perf_counter()


run(peer, scale)
