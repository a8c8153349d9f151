"""What is measured of the limits of a peer that lives on an event loop; each says how jobs are sent.

As our own figures are taken (`benchmarks/limited.py`): one process, uvloop. Each kind of job has a queue and
a worker of its own.
"""

import asyncio
import json
import time

#: The kinds of jobs, and how many there are at scale 1. Those of the rate are watched for a time.
PLAIN, NOT_REACHED, ONE, RATED = "plain", "not-reached", "one", "rated"
AMOUNTS = {PLAIN: 5_000, NOT_REACHED: 5_000, ONE: 500}
FIGURES = {
    PLAIN: "plain, jobs/s",
    NOT_REACHED: "limit not reached, jobs/s",
    ONE: "one at a time, 1 ms, jobs/s",
}

MANY, RATE, WATCHED = 1_000_000, 1_000, 5


class LimitedPeer:
    """`kinds` are those for which it has a feature. `done` and `starts` are kept by the handlers."""

    kinds = ()

    def __init__(self):
        self.done = 0
        self.starts = []

    async def send(self, kind, number):
        raise NotImplementedError

    async def work(self, kind):
        """Be a worker for jobs of this kind until cancelled."""
        raise NotImplementedError


def run(peer, scale):
    import uvloop

    print(json.dumps(uvloop.run(_figures(peer, scale))), flush=True)


def rate_figures(starts):
    """How much of the rate was used after the first second, which has the burst, and the most in a second."""
    first = starts[0]
    later = [start for start in starts if 1 <= start - first < WATCHED]
    most = max(sum(start <= other < start + 1 for other in starts) for start in starts[::20])
    return {"1,000/s, used, %": len(later) / (WATCHED - 1) / RATE * 100, "1,000/s, most in 1 s": most}


async def _figures(peer, scale):
    figures = {}
    for kind in peer.kinds:
        if kind == RATED:
            await peer.send(kind, RATE * (WATCHED + 2))
            await _work_until(peer, kind, lambda began: time.perf_counter() > began + WATCHED + 1)
            figures |= rate_figures(peer.starts)
        else:
            number, peer.done = max(20, round(AMOUNTS[kind] * scale)), 0
            await peer.send(kind, number)
            seconds = await _work_until(peer, kind, lambda began, number=number: peer.done >= number)
            figures[FIGURES[kind]] = number / seconds
    return figures


async def _work_until(peer, kind, is_over):
    began = time.perf_counter()
    working = asyncio.create_task(peer.work(kind))
    while not is_over(began):
        await asyncio.sleep(0.002)
        if working.done():
            working.result()
            raise RuntimeError("the worker has stopped")
    seconds = time.perf_counter() - began
    working.cancel()
    await asyncio.wait([working], timeout=5)
    return seconds
