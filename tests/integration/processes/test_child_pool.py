"""Hypothesis drives the pool of child processes, with real ones: whatever happens to jobs and children, at
whatever step, every job ends, none gets another's answer, and the pool is none the smaller for it."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import shutil
import signal
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Envelope, Stream
from headrace.engine.running.children.child_call import ChildCall
from headrace.engine.running.children.pool import ChildPool
from headrace.engine.running.children.process import ChildDied, ChildProcess, Status
from headrace.engine.running.children.protocol import Raised, Returned
from headrace.engine.running.run import Run
from tests.integration.programs import misbehaving_tasks as program
from tests.support.waiting import wait_until, wait_until_sync

SIZE = 2

#: Which of several, and how often the event loop turns before the next step.
choices = st.integers(0, 99)
turns = st.integers(0, 4)


class PoolCall:
    """A job that says in a file that it runs, and ends when another file is there. Its answer is its own."""

    def __init__(self, pool: ChildPool, gate: Path) -> None:
        registry, handler = program.app._registry, program.app._registry.handlers[program.wait_for.name]
        payload = program.app._jobs.declarations.by_task[program.wait_for.name].encode((str(gate),), {})
        envelope = Envelope(1, gate.name, handler.name, 0, None, None, payload)
        stream = Stream("queue", "default")
        claim = Claim(stream, gate.name, msgspec.msgpack.encode(envelope), None, 0)
        self.gate = gate
        self.began = False
        self.call = ChildCall(Run(claim, envelope, handler, (str(gate),), {}), registry, self._begin)
        self.task = asyncio.ensure_future(pool.run(self.call))

    def open_gate(self) -> None:
        self.gate.mkdir(exist_ok=True)  # a file would need a descriptor

    def _begin(self, run: Run) -> None:
        self.began = True

    def check(self) -> None:
        """How it ended is one of the ways in which it may."""
        if self.task.cancelled():
            return
        error = self.task.exception()
        assert error is None or isinstance(error, ChildDied), error
        if error is None:
            answer = self.task.result()
            assert not isinstance(answer, Raised), answer
            assert answer.value is not None
            assert msgspec.msgpack.decode(answer.value) == str(self.gate)
            assert self.began


class Pool(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.pool = ChildPool(SIZE, freed=self._freed)
        self.pool_calls: list[PoolCall] = []
        self.to_cancel: PoolCall | None = None
        self.killed: set[ChildProcess] = set()
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def teardown(self) -> None:
        try:
            self._lift_limit()
            self.loop.run_until_complete(self._end())
        finally:
            self._lift_limit()
            self.loop.run_until_complete(self.pool.close())
            self.loop.close()
            shutil.rmtree(self.folder)
        assert not self.pool._children

    async def _end(self) -> None:
        """Every job ends, and as many as the pool is large run at the same time."""
        self.to_cancel = None
        for pool_call in self.pool_calls:
            pool_call.open_gate()
        await wait_until(lambda: all(pool_call.task.done() for pool_call in self.pool_calls), timeout=30)
        for pool_call in self.pool_calls:
            pool_call.check()
        # The system ends a killed process a little later. Until then it may still get a job, and lose it.
        await wait_until(lambda: not self.killed & self.pool._children, timeout=30)
        last = [PoolCall(self.pool, self.folder / f"last-{number}") for number in range(SIZE)]
        await wait_until(lambda: all(pool_call.began for pool_call in last), timeout=30)
        assert self.pool.free == 0
        for pool_call in last:
            pool_call.open_gate()
        for pool_call in last:
            assert isinstance(await asyncio.wait_for(pool_call.task, 30), Returned)
            pool_call.check()
        assert self.pool.free == SIZE

    def _turn(self, count: int) -> None:
        async def turn() -> None:
            for _ in range(count):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def _lift_limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)

    def _chosen(self, choice: int) -> PoolCall:
        """One of those under way; where there is none, one is begun. (No preconditions: what is under way
        depends on real processes, and Hypothesis must be able to play a run again.)"""
        under_way = [pool_call for pool_call in self.pool_calls if not pool_call.task.done()]
        if not under_way:
            self.begin(0)
            under_way = self.pool_calls[-1:]
        return under_way[choice % len(under_way)]

    # --- what may happen ----------------------------------------------------------------------------------

    @rule(turns=turns)
    def begin_one(self, turns: int) -> None:
        self.begin(turns)

    def begin(self, turns: int) -> None:
        async def begin() -> PoolCall:
            return PoolCall(self.pool, self.folder / str(len(self.pool_calls)))

        self.pool_calls.append(self.loop.run_until_complete(begin()))
        self._turn(turns)

    @rule(choice=choices, answered=st.booleans(), turns=turns)
    def let_end(self, choice: int, answered: bool, turns: int) -> None:
        pool_call = self._chosen(choice)
        pool_call.open_gate()
        if answered and pool_call.began:
            self.loop.run_until_complete(wait_until(pool_call.task.done, timeout=30))
        self._turn(turns)

    @rule(choice=choices)
    def wait_for_its_start(self, choice: int) -> None:
        pool_call = self._chosen(choice)
        if pool_call.call.child is not None:
            started = lambda: pool_call.began or pool_call.task.done()  # noqa: E731
            self.loop.run_until_complete(wait_until(started, timeout=30))

    @rule(choice=choices, turns=turns)
    def cancel(self, choice: int, turns: int) -> None:
        """As a timeout, a shutdown, or its middleware does."""
        self._chosen(choice).task.cancel()
        self._turn(turns)

    @rule(choice=choices, turns=turns)
    def cancel_in_the_turn_of_a_hand_over(self, choice: int, turns: int) -> None:
        """A call that waits is cancelled as soon as it gets a free child, before its task has run again."""
        while not self.pool._waiting:
            self.begin(1)
        waiting = [
            pool_call
            for pool_call in self.pool_calls
            if not pool_call.task.done() and pool_call.call.child is None
        ]
        self.to_cancel = waiting[choice % len(waiting)]
        for pool_call in self.pool_calls:
            if pool_call.call.child is not None:
                pool_call.open_gate()
        self._turn(turns)

    def _freed(self) -> None:
        if self.to_cancel is not None:
            self.to_cancel.task.cancel()
            self.to_cancel = None

    @rule(choice=choices, turns=turns)
    def interrupt(self, choice: int, turns: int) -> None:
        """The run is over, although a task still waits for the call."""
        self._chosen(choice).call.kill()
        self._turn(turns)

    @rule(choice=choices, turns=turns)
    def kill(self, choice: int, turns: int) -> None:
        """A child, from outside, whether it has something to do or not."""
        children = sorted(self.pool._children, key=lambda child: child.pid)
        if children:
            child = children[choice % len(children)]
            os.kill(child.pid, signal.SIGKILL)
            self.killed.add(child)
        self._turn(turns)

    @rule()
    def have_no_descriptors(self) -> None:
        """No child can be started, until it is lifted."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, self.limits[1]))
        self._turn(3)

    @rule()
    def have_descriptors_again(self) -> None:
        self._lift_limit()
        self._turn(3)

    # --- what must hold -----------------------------------------------------------------------------------

    @invariant()
    def there_are_never_too_many(self) -> None:
        assert len(self.pool._children) + len(self.pool._starts) <= SIZE

    @invariant()
    def nobody_waits_beside_an_idle_child(self) -> None:
        waiting = [turn for turn in self.pool._waiting if not turn.done()]
        assert not (waiting and self.pool._idle)
        # A waiting call will get a child: one that starts, one that works, or the successor of one that ends.
        assert not waiting or self.pool._starts or self.pool._children

    @invariant()
    def a_child_has_one_job_at_most(self) -> None:
        working = [pool_call.call.child for pool_call in self.pool_calls if pool_call.call.child is not None]
        assert len(set(working)) == len(working)
        idle: list[ChildProcess] = self.pool._idle
        assert not set(working) & set(idle)
        assert all(child.status is not Status.BUSY for child in idle)

    @invariant()
    def who_has_ended_has_its_own_answer(self) -> None:
        for pool_call in self.pool_calls:
            if pool_call.task.done():
                pool_call.check()


@pytest.mark.parametrize(
    "examples", [pytest.param(6, id="few"), pytest.param(200, id="many", marks=pytest.mark.more)]
)
@pytest.mark.timeout(1200)
def test_whatever_happens_every_job_ends_with_its_own_answer(examples: int) -> None:
    run_state_machine_as_test(
        Pool,
        # Not made shorter when it fails: with real processes that takes for ever.
        settings=settings(
            max_examples=examples, stateful_step_count=15, deadline=None, phases=[Phase.generate]
        ),
    )


@pytest.mark.parametrize("reaped", [False, True])
async def test_a_job_is_not_given_to_a_child_that_ended_just_now(tmp_path: Path, reaped: bool) -> None:
    pool = ChildPool(1)
    first = PoolCall(pool, tmp_path / "first")
    first.open_gate()
    await first.task
    (child,) = pool._children
    os.kill(child.pid, signal.SIGKILL)
    if reaped:  # as a program does that reaps all its children
        wait_until_sync(lambda: os.waitpid(child.pid, os.WNOHANG)[0])
    wait_until_sync(lambda: not child.ready)  # the event loop does not turn, and has not seen it
    second = PoolCall(pool, tmp_path / "second")
    second.open_gate()
    await second.task
    second.check()
    await pool.close()


async def test_a_start_that_nobody_waits_for_any_longer_costs_no_child(tmp_path: Path) -> None:
    failed: list[Exception] = []
    pool = ChildPool(1, not_started=lambda error, delay: failed.append(error))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        first = PoolCall(pool, tmp_path / "first")
        await wait_until(lambda: failed)
        assert pool.free == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    first.task.cancel()
    await wait_until(lambda: pool.free == 1)
    second = PoolCall(pool, tmp_path / "second")
    second.open_gate()
    await asyncio.wait_for(second.task, 30)
    await pool.close()


async def test_a_child_that_came_to_a_cancelled_job_goes_to_the_next(tmp_path: Path) -> None:
    """A job in line gets the child and is cancelled in the same turn of the event loop."""
    to_cancel: list[PoolCall] = []

    def freed() -> None:
        while to_cancel:
            to_cancel.pop().task.cancel()

    pool = ChildPool(1, freed=freed)
    first = PoolCall(pool, tmp_path / "first")
    await wait_until(lambda: first.began, timeout=30)
    second, third = (PoolCall(pool, tmp_path / name) for name in ("second", "third"))
    await wait_until(lambda: len(pool._waiting) == 2)
    to_cancel.append(second)
    third.open_gate()
    first.open_gate()
    await asyncio.wait_for(third.task, 30)
    third.check()
    assert second.task.cancelled()
    await pool.close()


async def test_the_answer_of_a_child_that_ended_after_it_counts(tmp_path: Path) -> None:
    """The worker sees the end of the process before it has read the answer."""
    pool = ChildPool(1)
    pool_call = PoolCall(pool, tmp_path / "only")
    await wait_until(lambda: pool_call.began, timeout=30)
    (child,) = pool._children
    pool_call.open_gate()
    wait_until_sync(lambda: select.select([child._connection], [], [], 0)[0])  # the event loop does not turn
    os.kill(child.pid, signal.SIGKILL)
    wait_until_sync(lambda: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    child._watch._tell()
    assert isinstance(await pool_call.task, Returned)
    pool_call.check()
    await pool.close()


async def test_the_reason_is_the_signal_that_ended_a_child(tmp_path: Path) -> None:
    """A process that ends closes its connection first. Here the worker sees its end only some turns later."""
    pool = ChildPool(1)
    pool_call = PoolCall(pool, tmp_path / "only")
    await wait_until(lambda: pool_call.began, timeout=30)
    (child,) = pool._children
    child.connection_lost(None)
    os.kill(child.pid, signal.SIGTERM)
    wait_until_sync(lambda: os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    with pytest.raises(ChildDied, match=f"signal {int(signal.SIGTERM)}"):
        await asyncio.wait_for(pool_call.task, 30)
    await pool.close()
