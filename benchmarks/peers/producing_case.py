"""What is measured of a peer on a server that lives on an event loop; each says how its verbs are called.

As our own figures are taken: producer and one worker in one process, on uvloop, handlers that do nothing.
"""

import asyncio
import json
import statistics
import time


class Peer:
    """`done` and `began_at` are kept by the handlers. `naps`: it has a job that sleeps for a millisecond."""

    naps = False

    def __init__(self):
        self.done = 0
        self.began_at = {}

    async def open(self):
        """Whatever must stand before the first job is sent."""

    async def sent(self):
        """All is sent, and a worker will start."""

    async def close(self):
        pass

    async def send(self):
        """One job that does nothing."""
        raise NotImplementedError

    async def send_many(self, number):
        """In the way that its documentation shows for many; here: a hundred at a time."""
        for start in range(0, number, 100):
            await asyncio.gather(*(self.send() for _ in range(min(100, number - start))))

    async def send_stamp(self, number):
        raise NotImplementedError

    async def send_nap(self):
        raise NotImplementedError

    async def work(self):
        """Be a worker until cancelled."""
        raise NotImplementedError

    async def statements(self):
        """How many statements the server has run so far; None: it does not count them."""
        return


def run(peer, scale):
    import uvloop

    print(json.dumps(uvloop.run(_figures(peer, scale))), flush=True)


async def _figures(peer, scale):
    await peer.open()
    figures, total = await _enqueue(peer, scale)
    await peer.sent()
    began = time.perf_counter()
    working = asyncio.create_task(peer.work())
    while peer.done < total:
        await asyncio.sleep(0.002)
        _check(working)
    figures["drain no-op"] = total / (time.perf_counter() - began)
    figures |= await _pick_up(peer, max(10, int(60 * scale)))
    figures |= await _idle(peer)
    if peer.naps:
        figures |= await _drain_naps(peer, working, max(100, int(2_000 * scale)))
    working.cancel()
    await asyncio.wait([working], timeout=5)
    await peer.close()
    return figures


async def _enqueue(peer, scale):
    await peer.send()  # connections are made
    number = max(10, int(1_000 * scale))
    began = time.perf_counter()
    for _ in range(number):
        await peer.send()
    figures = {"enqueue one by one": number / (time.perf_counter() - began)}
    each = max(2, int(20 * scale))

    async def produce():
        for _ in range(each):
            await peer.send()

    began = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(100)))
    figures["enqueue, 100 coroutines"] = 100 * each / (time.perf_counter() - began)
    many = max(100, int(5_000 * scale))
    began = time.perf_counter()
    await peer.send_many(many)
    figures["enqueue_many"] = many / (time.perf_counter() - began)
    return figures, 1 + number + 100 * each + many


async def _pick_up(peer, number):
    samples = []
    for sample in range(number):
        await asyncio.sleep(0.02)  # an idle queue
        began = time.perf_counter()
        await peer.send_stamp(sample)
        while sample not in peer.began_at:  # noqa: ASYNC110
            await asyncio.sleep(0.0002)
        samples.append((peer.began_at[sample] - began) * 1000)
    cuts = statistics.quantiles(samples, n=100)
    return {"pick-up p50, ms": cuts[49], "pick-up p99, ms": cuts[98]}


async def _idle(peer):
    """What a worker with nothing to do asks of the server."""
    before = await peer.statements()
    if before is None:
        return {}
    began = time.perf_counter()
    await asyncio.sleep(5)
    return {"idle, statements a second": (await peer.statements() - before) / (time.perf_counter() - began)}


async def _drain_naps(peer, working, number):
    """Jobs of a millisecond. The worker is at work while they are sent, so this counts both."""
    peer.done = 0
    began = time.perf_counter()
    for start in range(0, number, 100):
        await asyncio.gather(*(peer.send_nap() for _ in range(min(100, number - start))))
    while peer.done < number:
        await asyncio.sleep(0.002)
        _check(working)
    return {"enqueue and drain, 1 ms sleep": number / (time.perf_counter() - began)}


def _check(working):
    if working.done():
        working.result()
        raise RuntimeError("the worker has stopped")
