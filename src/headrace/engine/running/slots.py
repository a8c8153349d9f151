"""The slots of a worker: long-lived coroutines that take the next claim and await its handler themselves. No
task is made for a job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from time import perf_counter
from types import MappingProxyType
from typing import Any

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import FRESH
from headrace.engine.declared.registry import BatchRule
from headrace.engine.running.batches.batches import Batches
from headrace.engine.running.batches.bundle import Bundle, FinishedBundle, parts_of
from headrace.engine.running.batches.job_gathering import JobGathering
from headrace.engine.settling.held_claims import HeldClaims
from headrace.engine.worker.shutdown import CANCEL_WAIT

from .executor import Executor
from .finished import FinishedRun
from .run import Slot

#: After this many seconds of jobs that never suspend, a slot lets the event loop turn. So outcomes get
#: written in between.
STREAK_SECONDS = 0.001

#: Buffered claims older than this many seconds are handed back: the pace has dropped.
LONGEST_BUFFERED = 0.25

#: A slot whose handler suspends wakes this many others. So all hundred are awake after a few turns of the
#: loop, while handlers that never suspend run in one slot and wake no other.
WAKE = 4


class Slots:
    """`size` slots over one buffer of claims."""

    def __init__(
        self,
        size: int,
        *,
        executor: Executor,
        held: HeldClaims,
        finish: Callable[[list[FinishedRun] | FinishedBundle], None],
        hand_back: Callable[[list[Claim]], None],
        batches: Mapping[str, BatchRule] = MappingProxyType({}),
    ) -> None:
        # Only workers with batch tasks gather.
        self._gathering = JobGathering(batches, self._put) if batches else None
        self.size = size
        self.ready: deque[Claim] = deque()
        self.finished = 0
        self.crowded = False  # claims got old while slots were free: the handlers do not suspend
        self.fresh_until = inf  # by `perf_counter`; later a slot checks the buffer before it begins a claim
        self._held = held
        self._hand_back = hand_back
        self._executor = executor
        self._batches = Batches(executor)
        self._finish = finish
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._suspended = False  # whether a handler has suspended since a slot last checked
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """How many slots have nothing to do."""
        return max(0, -self.waiting)

    @property
    def waiting(self) -> int:
        """How many buffered claims have no slot; below zero: how many slots have nothing to do."""
        return len(self._executor.running) + len(self.ready) - self.size

    @property
    def full(self) -> bool:
        """Whether every slot has a handler that has suspended."""
        return len(self._executor.running) >= self.size

    @property
    def quiet(self) -> bool:
        """Whether nothing is buffered or running."""
        gathered = self._gathering is not None and not self._gathering.empty
        return not self.ready and not self._executor.running and not gathered

    def start(self) -> None:
        for _ in range(self.size):
            self._begin()

    def put(self, claims: Sequence[Claim], *, later: bool = False) -> None:
        """Buffer claims and wake a slot. With `later`, wake it at the next turn of the loop, so that a reader
        can send its next claim first. Suspects go to the front: they never wait in the buffer."""
        if self._gathering is not None:
            claims = self._gathering.sort(claims)
        self._put(claims, later=later)

    def _put(self, claims: Sequence[Claim], *, later: bool = False) -> None:
        suspects = [claim for claim in claims if claim.state is not FRESH and claim.suspect]
        if suspects:
            self.ready.extendleft(suspects)
            claims = [claim for claim in claims if claim not in suspects]
        self.ready.extend(claims)
        if later:
            asyncio.get_running_loop().call_soon(self._wake, 1)
        else:
            self._wake(1)

    def take_back(self, wanted: Callable[[Claim], bool] = lambda claim: True) -> list[Claim]:
        """Remove buffered claims that no slot has begun."""
        taken = [claim for claim in self.ready if wanted(claim)]
        if taken:
            kept = [claim for claim in self.ready if not wanted(claim)]
            self.ready.clear()
            self.ready.extend(kept)
            self._changed.set()
        return taken if self._gathering is None else taken + self._gathering.take_back(wanted)

    async def return_prefetched(self) -> float:
        """The step of a duty that hands back claims which wait too long. Returns seconds until the next."""
        self.hand_back_old()
        return LONGEST_BUFFERED / 2

    def hand_back_old(self) -> None:
        """Hand back buffered claims if the first of them is old. Other workers may be idle, or may hold these
        claims already if this process stood still. After a standstill a slot may run before the duty does,
        so slots call this too."""
        self.fresh_until = perf_counter() + LONGEST_BUFFERED
        # Claims of a fan-out have no lease and so no age. They stay.
        ages = (self._held.age(parts_of(claim)[0]) for claim in self.ready)
        if next(filter(None, ages), 0.0) > LONGEST_BUFFERED:
            self.crowded = not self.full
            self._hand_back(self.take_back(lambda claim: parts_of(claim)[0] in self._held))

    async def until_quiet(self, timeout: float) -> bool:
        """Wait until nothing is buffered or running; False after `timeout` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        while not self.quiet:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return self.quiet
        return True

    async def stop(self) -> None:
        """End the slots. A handler that does not end goes on: it cannot be forced."""
        self._closed = True
        self._wake(self.size)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_WAIT)

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._slot(), name="headrace slot")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Replace a slot that ended before the worker stops. For example, a handler kept the slot's task and
        cancelled it later."""
        self._tasks.discard(task)
        if not self._closed:
            self._begin()

    async def _slot(self) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        slot = Slot(task, self._wake_others)
        turned = perf_counter()  # the last known turn of the event loop
        while not self._closed:
            self._suspended = False
            if not self.ready:
                await self._until_woken()
                turned = perf_counter()
            elif suspended := self._streak(slot):
                finished = await suspended
                self.finished += 1
                self._finish([finished] if isinstance(finished, FinishedRun) else finished)
                if self._suspended:  # not always so: there is middleware, and its handler did not suspend
                    turned = perf_counter()
            if not self.ready:
                self._changed.set()
            elif perf_counter() - turned >= STREAK_SECONDS:
                await asyncio.sleep(0)
                turned = perf_counter()

    def _streak(self, slot: Slot) -> Coroutine[Any, Any, FinishedRun | FinishedBundle] | None:
        """Run claims until a handler suspends, and return its coroutine. None: no claim is left, or it is
        time for a turn of the event loop. Runs that ended before are finished together."""
        ready, run_plain = self.ready, self._executor.run_plain
        finished: list[FinishedRun] = []
        now = perf_counter()
        if now > self.fresh_until:
            self.hand_back_old()
        until = now + STREAK_SECONDS
        try:
            while ready:
                ended = run_plain(ready, slot, finished, until) or self._next(slot, finished, until)
                if isinstance(ended, FinishedRun):
                    finished.append(ended)
                elif ended is not None:
                    return ended
                if perf_counter() >= until:
                    break
            return None
        finally:
            if finished:
                self.finished += len(finished)
                self._finish(finished)

    def _next(
        self, slot: Slot, before: list[FinishedRun], until: float
    ) -> FinishedRun | Coroutine[Any, Any, FinishedRun | FinishedBundle] | None:
        """Begin the next claim, of any kind; None: there is none, or the time is used up."""
        if not self.ready or (before and perf_counter() >= until):
            return None
        claim = self.ready.popleft()
        return self._batches.run(claim, slot) if type(claim) is Bundle else self._executor.begin(claim, slot)

    async def _until_woken(self) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(woken)
        await woken

    def _wake_others(self) -> None:
        self._suspended = True
        if self.ready:
            self._wake(WAKE)
        else:
            self.crowded = False  # all buffered claims have begun

    def _wake(self, count: int) -> None:
        while count and self._idle:
            woken = self._idle.popleft()
            if not woken.done():
                woken.set_result(None)
                count -= 1
