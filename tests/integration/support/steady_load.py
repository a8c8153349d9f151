"""Jobs enqueued without pause while a test does harm, and what became of each of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from types import TracebackType

from headrace import BackendUnavailable, NotDurable
from tests.integration.support.worker_processes import Workshop

#: Seconds between two jobs.
PACE = 0.004


class Load:
    """`quick` jobs with numbers, for each queue in turn. `accepted` has the time at which each was stored, on
    the clock of the log. With a `delay` they wait in the store for so many seconds first.

    A job that is refused ends the test, unless `may_be_refused`: servers may need longer to agree on a
    successor than the ten seconds after which `enqueue` gives up.
    """

    def __init__(
        self,
        workshop: Workshop,
        queues: Sequence[str] = ("default",),
        *,
        delay: float = 0.0,
        may_be_refused: bool = False,
    ) -> None:
        self._queues = queues
        self._delay = delay
        self._tolerated = BackendUnavailable if may_be_refused else NotDurable
        self.accepted: dict[int, float] = {}
        self.harmed_at = 0.0  # when the test did what it does
        self._workshop = workshop
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Load:
        self._task = asyncio.create_task(self._feed())
        await self.until_accepted(100)
        await self._workshop.until(lambda: len(self.runs()) >= 50)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._stopping = True
        if error is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        else:
            await self._task

    async def until_accepted(self, more: int) -> None:
        """Wait until so many more jobs were taken."""
        goal = len(self.accepted) + more
        await self._workshop.until(lambda: len(self.accepted) >= goal or self._ended())
        self._check()

    async def until_work_goes_on(self, since: float) -> float:
        """Wait until a job runs that was accepted after this moment; answers how long that took."""

        def ran_at() -> float | None:
            later = (
                line["at"]
                for line in self._workshop.log.lines("quick")
                if line["at"] > since and self.accepted.get(line["number"], 0) > since
            )
            return next(later, None)

        await self._workshop.until(lambda: ran_at() or self._ended())
        self._check()
        return (ran_at() or 0) - since

    async def until_all_ran(self) -> None:
        await self._workshop.until(lambda: self.runs().keys() >= self.accepted.keys())

    def runs(self) -> Counter[int]:
        """How often each number ran."""
        return Counter(line["number"] for line in self._workshop.log.lines("quick"))

    def _ended(self) -> bool:
        return self._task is not None and self._task.done() and not self._stopping

    def _check(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    async def _feed(self) -> None:
        quick = self._workshop.task("quick")
        for number in count():
            with contextlib.suppress(self._tolerated):  # it may run, but that is not promised
                queue = self._queues[number % len(self._queues)]
                await quick.with_(queue=queue, delay=self._delay).enqueue(number)
                self.accepted[number] = time.time()
            if self._stopping:
                return
            await asyncio.sleep(PACE)
