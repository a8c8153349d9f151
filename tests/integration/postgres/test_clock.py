"""The clock of a real server is set while workers are at work."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace import App, JobStatus, signals
from headrace.testing.waiting import wait_until
from tests.support.postgres_server import PostgresServer, nobodys_folder
from tests.support.stepped_clock import MISSING, SteppedClock

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.more,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

HOUR = 3600
LEASE = 4.0


@pytest.fixture
def clock() -> Iterator[SteppedClock]:
    folder = nobodys_folder("headrace-clock-")
    yield SteppedClock(folder)
    shutil.rmtree(folder)


@pytest.fixture
def server(clock: SteppedClock) -> Iterator[PostgresServer]:
    with PostgresServer(environment=clock.environment) as server:
        yield server


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_servers_clock_costs_no_job(
    server: PostgresServer, clock: SteppedClock, step: int
) -> None:
    app = App(server.url)
    runs: Counter[int] = Counter()
    heard: list[signals.Signal] = []
    for kind in (signals.ClockStepped, signals.LeaseLost, signals.JobRecovered):
        app.on(kind)(heard.append)

    @app.task(name="nap")
    async def nap(number: int) -> None:
        runs[number] += 1
        stop_at = time.monotonic() + 3 * LEASE
        await wait_until(lambda: time.monotonic() >= stop_at, timeout=60)

    @app.task(name="later")
    async def later() -> None:
        runs[-1] += 1

    async with app, app.worker(lease=LEASE), app.worker(lease=LEASE):
        naps = [await nap.enqueue(number) for number in range(10)]
        delayed = await later.with_(delay=60, unique_key="key").enqueue()
        await wait_until(lambda: len(runs) == len(naps), timeout=60)
        clock.step(step)
        for each in naps:
            await each.wait(timeout=60)
        if step > 0:  # it was due
            await wait_until(lambda: runs[-1] == 1, timeout=60)
        else:
            assert await delayed.status() is JobStatus.SCHEDULED
            assert runs[-1] == 0
    assert set(runs.values()) <= {0, 1}
    assert {type(each) for each in heard} == {signals.ClockStepped}
