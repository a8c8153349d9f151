"""The ConcurrencyLimit of docket. Its worker looks for jobs every 10 ms in place of 250, so that the limit is
what is measured. It runs 40 jobs at a time: its client has too few connections for a hundred."""

import asyncio
import logging
import sys
from datetime import timedelta

from docket import ConcurrencyLimit, Docket, Worker
from limited_case import MANY, NOT_REACHED, ONE, PLAIN, LimitedPeer, run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
OPTIONS = {"concurrency": 40, "minimum_check_interval": timedelta(milliseconds=10)}
ALL_AT_ONCE, ONE_AT_A_TIME = ConcurrencyLimit(max_concurrent=MANY), ConcurrencyLimit(max_concurrent=1)


class DocketPeer(LimitedPeer):
    kinds = (PLAIN, NOT_REACHED, ONE)

    async def send(self, kind, number):
        async with Docket(name=kind, url=url) as docket:
            for start in range(0, number, 50):
                some = range(min(50, number - start))
                await asyncio.gather(*(docket.add(TASKS[kind])() for _ in some))

    async def work(self, kind):
        async with Docket(name=kind, url=url) as docket:
            docket.register(TASKS[kind])
            async with Worker(docket, **OPTIONS) as worker:
                await worker.run_forever()


peer = DocketPeer()


async def plain():
    peer.done += 1


async def not_reached(limit: ConcurrencyLimit = ALL_AT_ONCE):
    peer.done += 1


async def one(limit: ConcurrencyLimit = ONE_AT_A_TIME):
    await asyncio.sleep(0.001)
    peer.done += 1


TASKS = {PLAIN: plain, NOT_REACHED: not_reached, ONE: one}
run(peer, scale)
