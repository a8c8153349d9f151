"""What a limit that is not reached costs, and how well one that is reached is used. Peers are measured by the
same rules, see `peers/limited_case.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from headrace import App, Limit, Task

from .measures import Figures

#: A limit that is never reached, and the rate that is, for each second.
MANY, RATE = 1_000_000, 1_000

#: Seconds for which the rate is watched. The first one is left out: it has the burst.
WATCHED = 5


class Limited:
    """An app with a task for each figure."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.starts: list[float] = []
        self.plain = self.app.task(name="plain", queue="plain")(noop)
        never = [Limit("never", max_running=MANY)]
        self.not_reached = self.app.task(name="not-reached", queue="not-reached", limits=never)(noop)
        self.one = self.app.task(name="one", queue="one", max_running=1)(nap)
        self.rated = self.app.task(name="rated", queue="rated", rate_limit=f"{RATE}/s")(self._start)

    async def _start(self) -> None:
        self.starts.append(time.perf_counter())

    async def drain(self, task: Task[[], None], jobs: int) -> float:
        """Jobs a second."""
        await self.app.enqueue_many([task.call()] * jobs)
        began = time.perf_counter()
        await self.app.worker(queues=[task.options.queue]).run(burst=True)
        return jobs / (time.perf_counter() - began)

    async def watch_rate(self) -> None:
        await self.app.enqueue_many([self.rated.call()] * RATE * (WATCHED + 2))
        async with self.app.worker(queues=[self.rated.options.queue]):
            await asyncio.sleep(WATCHED + 1)


async def noop() -> None: ...


async def nap() -> None:
    await asyncio.sleep(0.001)


async def limited(url: str, scale: float) -> Figures:
    many, few = max(100, round(20_000 * scale)), max(20, round(500 * scale))
    bench = Limited(url)
    async with bench.app:
        for task in (bench.plain, bench.not_reached):
            await bench.drain(task, many // 10)  # warms up
        figures = {
            "plain, jobs/s": await bench.drain(bench.plain, many),
            "limit not reached, jobs/s": await bench.drain(bench.not_reached, many),
            "one at a time, 1 ms, jobs/s": await bench.drain(bench.one, few),
        }
        await bench.watch_rate()
    return figures | rate_figures(bench.starts)


def rate_figures(starts: Sequence[float]) -> Figures:
    """How much of the rate was used, and the most starts in any second."""
    first = starts[0]
    later = [start for start in starts if 1 <= start - first < WATCHED]
    most = max(sum(start <= other < start + 1 for other in starts) for start in starts[::20])
    return {"1,000/s, used, %": len(later) / (WATCHED - 1) / RATE * 100, "1,000/s, most in 1 s": most}
