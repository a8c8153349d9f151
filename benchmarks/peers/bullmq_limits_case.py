"""The limiter of BullMQ for Python: so many jobs in a span of time.

When the limiter is full, its worker (3.4) waits for `drainDelay`, five seconds by default, and not until the
span is over. So the share of the rate that it uses is what its users get, and no measure of its scripts."""

import logging
import sys
import time

from bullmq import Queue, Worker
from limited_case import MANY, NOT_REACHED, PLAIN, RATE, RATED, LimitedPeer, run

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)

OPTIONS = {"removeOnComplete": True}

#: Jobs and milliseconds of each limiter.
LIMITERS = {NOT_REACHED: {"max": MANY, "duration": 1000}, RATED: {"max": RATE, "duration": 1000}}


class BullPeer(LimitedPeer):
    kinds = (PLAIN, NOT_REACHED, RATED)

    async def send(self, kind, number):
        queue = Queue(kind, {"connection": url})
        for start in range(0, number, 500):
            some = range(min(500, number - start))
            await queue.addBulk([{"name": kind, "data": {}, "opts": OPTIONS} for _ in some])
        await queue.close()

    async def work(self, kind):
        options = {"connection": url, "concurrency": 100, "autorun": False}
        if kind in LIMITERS:
            options["limiter"] = LIMITERS[kind]
        worker = Worker(kind, self._process, options)
        try:
            await worker.run()
        finally:
            await worker.close(force=True)

    async def _process(self, job, token):
        self.starts.append(time.perf_counter())
        self.done += 1


run(BullPeer(), scale)
