"""A real server's clock is set while workers are at work. It needs a C compiler: libfaketime hangs in servers
that have jemalloc."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import App, JobStatus, signals
from tests.support.servers import Server, require
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) is installed"),
]

SOURCE = Path(__file__).with_name("stepped_clock.c")
HOUR = 3600
LEASE = 2.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    library, offset, program = (tmp_path / name for name in ("clock.so", "offset", "server"))
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    offset.write_text("0\n")
    preloaded = f"LD_PRELOAD={library} SERVER_CLOCK_OFFSET={offset}"
    program.write_text(f'#!/bin/sh\nexport {preloaded}\nexec {require("redis-7.0")} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "data").mkdir()
    with Server(program, directory=tmp_path / "data") as server:
        yield server


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_of_the_servers_clock_costs_nobody_a_job(
    server: Server, tmp_path: Path, step: int
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
        stop_at = time.monotonic() + 5 * LEASE
        await wait_until(lambda: time.monotonic() >= stop_at)

    @app.task(name="later")
    async def later() -> None: ...

    @app.every(0.5, name="tick")
    async def tick() -> None:
        ticks.append(time.monotonic())

    async with app, app.worker(lease=LEASE), app.worker(lease=LEASE):
        naps = [await nap.enqueue(number) for number in range(10)]
        delayed = await later.with_(delay=60, unique_key="key").enqueue()
        await wait_until(lambda: len(runs) == len(naps) and ticks)
        (tmp_path / "offset").write_text(f"{step}\n")
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
