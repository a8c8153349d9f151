"""A pool of child processes for CPU work. They stay alive between jobs, and each is replaced by itself.

`ProcessPoolExecutor` fails as a whole when one of its processes dies, and pickles what it sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from .process import ChildDied, ChildListener, ChildProcess, Status
from .protocol import ChildJob, Raised, Returned

#: Seconds that children have to end by themselves before they are killed.
PATIENCE = 5.0

#: Seconds until the next try after a child could not be started. They double each time.
FIRST_RETRY, LONGEST_RETRY = 0.1, 5.0

#: After this many failed starts in a row, about half a minute, a job that waits for a child fails.
MOST_TRIES = 10


class NoChild(Exception):
    """Several tries to start a child process have failed."""


class PooledCall(ChildListener, Protocol):
    """A call for a child to run. `kill` ends it, whether it has a child or not."""

    child: ChildProcess | None
    over: bool

    def assignment(self, number: int) -> ChildJob: ...


class ChildPool:
    """At most `size` children. A child starts when it is needed, and stays for the next job.

    The pool owns the children. A child is idle, or has one job, or was killed; a killed child counts until
    its exit is seen. When no child is idle, a job waits in line. A child that becomes idle goes to the first
    job in line. For each waiting job a child starts, up to `size`.
    """

    def __init__(
        self,
        size: int,
        *,
        freed: Callable[[], None] = lambda: None,
        not_started: Callable[[Exception, float], None] = lambda error, delay: None,
    ) -> None:
        self.size = size
        self._freed = freed
        self._not_started = not_started
        self._children: set[ChildProcess] = set()
        self._idle: list[ChildProcess] = []
        self._waiting: deque[asyncio.Future[ChildProcess]] = deque()
        self._starts: set[asyncio.Task[None]] = set()
        self._engaged = 0  # jobs that have a child or wait for one
        self._failing = False  # the last try to start a child failed
        self._numbers = count(1)
        self._closed = False
        self._all_gone = asyncio.Event()

    @property
    def free(self) -> int:
        """How many more jobs would get a child at once."""
        if self._failing or self._closed:
            return 0
        ending = sum([child.status is Status.ENDING for child in self._children])
        return max(0, self.size - ending - self._engaged)

    async def run(self, job: PooledCall) -> Returned | Raised:
        """Run the job in a child."""
        self._engaged += 1
        try:
            child = await self._take()
            try:
                return await self._do(job, child)
            finally:
                self._settle(child)
        finally:
            self._engaged -= 1
            self._freed()

    async def close(self) -> None:
        """End all children. Idle children may leave their lifespan first; the others are killed."""
        self._closed = True
        try:
            for start in self._starts:
                start.cancel()
            for turn in self._waiting:
                turn.cancel()
            await asyncio.gather(*self._starts, return_exceptions=True)
            for child in self._children:
                child.leave()
            await self._until_gone()
        finally:
            for child in self._children:
                child.kill()
        await self._until_gone()

    async def _until_gone(self) -> None:
        if self._children:
            self._all_gone.clear()
            try:
                await asyncio.wait_for(self._all_gone.wait(), PATIENCE)
            except TimeoutError:
                pass

    async def _do(self, job: PooledCall, child: ChildProcess) -> Returned | Raised:
        if job.over:
            raise ChildDied("its run was over before it had a child")
        job.child = child
        try:
            return await child.do(job.assignment(next(self._numbers)), job)
        finally:
            job.child = None

    # --- giving children to jobs --------------------------------------------------------------------------

    async def _take(self) -> ChildProcess:
        while True:
            child = self._idle.pop() if self._idle else await self._in_line()
            if child.ready:
                return child

    async def _in_line(self) -> ChildProcess:
        if self._closed:
            raise ChildDied("the worker has stopped")
        turn: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._start_more()
        try:
            return await turn
        except BaseException:
            self._leave_line(turn)
            raise

    def _leave_line(self, turn: asyncio.Future[ChildProcess]) -> None:
        """A waiting job was cancelled. It may have got a child in the same turn of the loop."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif not turn.cancelled() and turn.exception() is None:
            self._settle(turn.result())

    def _settle(self, child: ChildProcess) -> None:
        """Give a child without a job to the next job in line. A child that is not idle was killed."""
        if child.status is not Status.IDLE:
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(child)
                return
        self._idle.append(child)

    def _gone(self, child: ChildProcess) -> None:
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        if not self._children:
            self._all_gone.set()
        self._start_more()
        self._freed()

    # --- starting -----------------------------------------------------------------------------------------

    def _start_more(self) -> None:
        """Start a child for each waiting job for which none is starting, up to `size`."""
        while (
            len(self._starts) < len(self._waiting)
            and len(self._starts) + len(self._children) < self.size
            and not self._closed
        ):
            start = asyncio.get_running_loop().create_task(self._start(), name="headrace child start")
            self._starts.add(start)
            start.add_done_callback(self._started)

    def _started(self, start: asyncio.Task[None]) -> None:
        self._starts.discard(start)
        self._start_more()  # a job may have joined the line after this start had given up
        self._freed()

    async def _start(self) -> None:
        this, tries = asyncio.current_task(), 0
        assert this is not None
        try:
            while self._waiting:
                try:
                    child = await ChildProcess.start(self._gone)
                except Exception as error:
                    tries += 1
                    self._failing = True
                    await self._back_off(error, tries)
                else:
                    self._starts.discard(this)
                    self._children.add(child)
                    self._settle(child)
                    return
        finally:
            self._failing = False

    async def _back_off(self, error: Exception, tries: int) -> None:
        if tries >= MOST_TRIES and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(NoChild(f"a child process could not be started: {error}"))
        delay = min(LONGEST_RETRY, FIRST_RETRY * 2 ** (tries - 1))
        self._not_started(error, delay)
        await asyncio.sleep(delay)
