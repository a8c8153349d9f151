"""One heap and one timer for the timeouts of all running jobs."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headrace.engine.running.deadlines import SMALLEST_SWEEP, Deadlines
from headrace.engine.running.run import Run
from tests.support.waiting import wait_until


class Running:
    """As much of a run as deadlines look at."""

    def __init__(self) -> None:
        self.ended = False


def running() -> Run:
    return cast(Run, Running())


async def test_a_run_is_struck_when_its_time_is_up() -> None:
    struck: list[Run] = []
    deadlines = Deadlines(struck.append)
    run = running()
    deadlines.watch(run, 0.001)
    await wait_until(lambda: struck == [run])


def test_a_run_is_watched_while_the_timer_of_another_is_due_at_once_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def watch() -> None:
        struck: list[Run] = []
        deadlines = Deadlines(struck.append)
        overdue, other = running(), running()
        deadlines.watch(overdue, 0.0)
        deadlines.watch(other, 0.001)
        await wait_until(lambda: struck == [overdue, other])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(watch())


async def test_runs_are_struck_in_the_order_of_their_deadlines() -> None:
    struck: list[Run] = []
    deadlines = Deadlines(struck.append)
    last, first, second = running(), running(), running()
    deadlines.watch(last, 0.03)
    deadlines.watch(first, 0.001)
    deadlines.watch(second, 0.015)
    await wait_until(lambda: len(struck) == 3)
    assert struck == [first, second, last]


async def test_a_later_timeout_replaces_an_earlier_one() -> None:
    struck: list[Run] = []
    deadlines = Deadlines(struck.append)
    run, other = running(), running()
    deadlines.watch(run, 0.001)
    deadlines.watch(run, 3600)
    deadlines.watch(other, 0.01)
    await wait_until(lambda: other in struck)
    assert struck == [other]
    deadlines.close()


async def test_a_run_that_has_ended_is_not_struck() -> None:
    struck: list[Run] = []
    deadlines = Deadlines(struck.append)
    ended, late = running(), running()
    deadlines.watch(ended, 0.001)
    deadlines.watch(late, 0.01)
    ended.ended = True
    await wait_until(lambda: struck == [late])


async def test_nothing_is_struck_after_the_end() -> None:
    struck: list[Run] = []
    deadlines = Deadlines(struck.append)
    deadlines.watch(running(), 0.001)
    deadlines.close()
    marker: list[Run] = []
    Deadlines(marker.append).watch(running(), 0.02)
    await wait_until(lambda: marker)
    assert struck == []


async def test_runs_that_ended_do_not_pile_up_until_their_time() -> None:
    deadlines = Deadlines(lambda run: None)
    for _ in range(10 * SMALLEST_SWEEP):
        run = running()
        deadlines.watch(run, 3600)
        run.ended = True
    assert len(deadlines._heap) <= 2 * SMALLEST_SWEEP
    deadlines.close()
