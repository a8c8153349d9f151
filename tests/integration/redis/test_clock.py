"""A real server's clock is set while workers are at work."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import App, JobStatus, signals
from tests.support.servers import Server, require
from tests.support.stepped_clock import MISSING, SteppedClock
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

HOUR = 3600
LEASE = 4.0


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    return SteppedClock(tmp_path / "clock")


@pytest.fixture
def server(tmp_path: Path, clock: SteppedClock) -> Iterator[Server]:
    with Server(clock.wrapped(require("redis-7.0")), directory=tmp_path / "data") as server:
        yield server


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_servers_clock_costs_nobody_a_job(
    server: Server, clock: SteppedClock, step: int
) -> None:
    app = App(server.url)
    runs: Counter[int] = Counter()
    ticks: list[float] = []
    heard: list[signals.Signal] = []
    for kind in (signals.ClockStepped, signals.LeaseLost, signals.JobRecovered):
        app.on(kind)(heard.append)

    @app.task(name="nap")
    async def nap(number: int) -> None:
        runs[number] += 1
        stop_at = time.monotonic() + 3 * LEASE
        await wait_until(lambda: time.monotonic() >= stop_at, timeout=60)

    @app.task(name="later")
    async def later() -> None: ...

    @app.every(0.5, name="tick")
    async def tick() -> None:
        ticks.append(time.monotonic())

    async with app, app.worker(lease=LEASE), app.worker(lease=LEASE):
        naps = [await nap.enqueue(number) for number in range(10)]
        delayed = await later.with_(delay=60, unique_key="key").enqueue()
        await wait_until(lambda: len(runs) == len(naps) and ticks)
        clock.step(step)
        stepped_at = time.monotonic()
        for each in naps:
            await each.wait(timeout=60)
        again = await later.with_(delay=60, unique_key="key").enqueue()
        if step > 0:  # it was due, has run, and has given up its key
            assert again.id != delayed.id
        else:
            assert await delayed.status() is JobStatus.SCHEDULED
            assert again.id == delayed.id
    assert set(runs.values()) == {1}
    assert {type(each) for each in heard} == {signals.ClockStepped}
    assert sum(at > stepped_at + LEASE for at in ticks) > 4
