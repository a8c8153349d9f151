"""taskiq on a Redis stream, its broker with acknowledgement; one receiver at its default settings."""

import logging
import sys
import time

from producing_case import Peer, run
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
broker = RedisStreamBroker(url)


class Taskiq(Peer):
    async def open(self):
        await broker.startup()  # its group begins at the end of the stream: before the first job

    async def close(self):
        await broker.shutdown()

    async def send(self):
        await noop.kiq()

    async def send_stamp(self, number):
        await stamp.kiq(number)

    async def work(self):
        await run_receiver_task(broker)


peer = Taskiq()


@broker.task
async def noop() -> None:
    peer.done += 1


@broker.task
async def stamp(number: int) -> None:
    peer.began_at[number] = time.perf_counter()


run(peer, scale)
