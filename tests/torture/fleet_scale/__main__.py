"""`python -m tests.torture.fleet_scale`: 300 workers with 100 slots each, and one worker with 500 queues, on
a real server. Prints what the server did for them. The exit code is 1 when a bar is not held."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from headrace import App, Call, Task
from tests.torture.fleet import Server, available, wait_until

from .crew import declare, queue_names
from .crews import CrewPlan, Crews
from .report import Death, Measured, Report
from .slowlog import named, watched

#: Workers that are killed together, one crew after the other.
KILLED: Final = (1, 10, 100)
SLOTS: Final = 100

#: The priority of the server, as `nice` counts.
PRIORITY: Final = -10

#: The lease of workers, in seconds.
LEASE: Final = 15.0

#: Jobs in a second while there is traffic: quick ones, and those of them that are delayed by some seconds.
QUICK: Final = 200
DELAYED: Final = 50

#: Seconds until all jobs have begun, and until all that were lost have begun again.
BEGUN: Final = 600.0
RECOVERED: Final = 8 * LEASE


class Traffic:
    """Sends quick jobs, and knows when each may begin. Their numbers are negative."""

    def __init__(self, task: Task[[int], None], queues: list[str]) -> None:
        self.due: dict[int, float] = {}
        self._task = task
        self._queues = queues
        self._numbers = count(1)
        self._random = Random(1)

    async def run(self, app: App, seconds: float) -> None:
        """A tenth of a second's jobs at a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            at_once = [self._call(0.0) for _ in range((QUICK - DELAYED) // 10)]
            later = [self._call(self._random.uniform(0.5, 5.0)) for _ in range(DELAYED // 10)]
            await app.enqueue_many(at_once + later)
            await asyncio.sleep(max(0.0, 0.1 - (time.monotonic() - began)))

    def _call(self, delay: float) -> Call[None]:
        number = -next(self._numbers)
        self.due[number] = time.time() + delay
        return self._task.call(number).with_(delay=delay, queue=self._random.choice(self._queues))


async def measure_fleet(server: Server, folder: Path, seconds: float, workers: int) -> list[Measured]:
    """Many workers: with nothing to do, with every slot taken, with traffic; and then some of them die."""
    killed = [number for number in KILLED if number <= workers // 3]
    left = workers - sum(killed)
    plans = [CrewPlan(number, SLOTS) for number in (*killed, left // 2, left - left // 2)]
    slots = SLOTS * workers
    found: list[Measured] = []
    with Crews(server.url, folder, plans) as crews:
        async with App(server.url) as app:
            hold = declare(app)
            await crews.start()
            found.append(await _measure(f"{workers} workers, nothing to do", server, seconds))
            for start in range(0, slots, 1000):
                numbers = range(start, min(start + 1000, slots))
                await app.enqueue_many([hold.call(number) for number in numbers])
            await wait_until(lambda: _begun(crews, slots), timeout=BEGUN)
            await asyncio.sleep(LEASE)  # until the renewals of all have begun
            found.append(await _measure(f"{workers} workers, {slots} jobs running", server, seconds))
            crews.release()
            await wait_until(lambda: _running(app, slots // 2), timeout=120)
            traffic = Traffic(hold, ["default"])
            name = f"{workers} workers, half of the slots taken, and traffic"
            found.append(await _measure(name, server, seconds, traffic, app))
            await wait_until(lambda: _arrived(crews, traffic), timeout=120)
            found[-1].waits = _waits(crews, traffic)
            for number in killed:
                found.append(await _death(server, crews, number))
    return found


async def measure_queues(server: Server, folder: Path, seconds: float, queues: int) -> list[Measured]:
    """One worker with many queues: with nothing to do, and with traffic on all of them."""
    found: list[Measured] = []
    with Crews(server.url, folder, [CrewPlan(1, SLOTS, queues)]) as crews:
        async with App(server.url) as app:
            hold = declare(app)
            await crews.start()
            name = f"1 worker with {queues} queues"
            found.append(await _measure(f"{name}, nothing to do", server, seconds))
            traffic = Traffic(hold, queue_names(queues))
            found.append(await _measure(f"{name}, and traffic", server, seconds, traffic, app))
            await wait_until(lambda: _arrived(crews, traffic), timeout=120)
            found[-1].waits = _waits(crews, traffic)
    return found


async def _measure(
    name: str, server: Server, seconds: float, traffic: Traffic | None = None, app: App | None = None
) -> Measured:
    """A window, and then another one in which scripts have names."""

    async def pass_time() -> None:
        if traffic is not None and app is not None:
            await traffic.run(app, seconds)
        else:
            await asyncio.sleep(seconds)

    async with watched(server) as window:
        await pass_time()
    async with named(server) as by_name:
        await pass_time()
    return Measured(name, window, by_name)


async def _death(server: Server, crews: Crews, workers: int) -> Measured:
    """Kill a crew, and measure until each of its jobs has begun elsewhere."""
    crew = crews.crew_of(workers)
    lost = crews.held_by(crew)
    async with watched(server) as window:
        crews.kill(crew)
        killed = time.monotonic()
        await wait_until(lambda: not (lost & crews.held_by(crew)), timeout=RECOVERED)
    times = [crews.places[number].at - killed for number in lost]
    return Measured(f"{workers} of the workers die", window, death=Death(workers, times))


def _begun(crews: Crews, jobs: int) -> bool:
    crews.look()
    return len(crews.places) == jobs


async def _running(app: App, jobs: int) -> bool:
    return sum(queue.running for queue in await app.admin.queues()) <= jobs


def _arrived(crews: Crews, traffic: Traffic) -> bool:
    crews.look()
    return crews.begun.keys() >= traffic.due.keys()


def _waits(crews: Crews, traffic: Traffic) -> list[float]:
    """Seconds from when each quick job was due until it began."""
    return [crews.begun[number] - due for number, due in traffic.due.items()]


def main() -> int:
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="fleet-"))
    program = available()[options.server]
    assert program is not None, f"no {options.server} server on this machine"
    measured: list[Measured] = []
    load = os.getloadavg()[0]
    parts = (("fleet", measure_fleet, options.workers), ("queues", measure_queues, options.queues))
    for name, measure, number in parts:
        logs = folder / name
        logs.mkdir(parents=True)
        with Server(program, directory=folder / f"{name}-server") as server:
            _put_first(server)
            measured += asyncio.run(measure(server, logs, options.seconds, number))
    report = Report(options.server, measured, load)
    print("\n".join(report.lines()))
    if options.page:
        Path(options.page).write_text(report.page())
    return 0 if report.good else 1


def _put_first(server: Server) -> None:
    """Let the server run before other programs of the machine, where the user may: else the times of its
    scripts are also times for which it waited for a core."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, server.pid, PRIORITY)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.fleet_scale", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each window")
    parser.add_argument("--workers", type=int, default=300, help="of the fleet")
    parser.add_argument("--queues", type=int, default=500, help="of one worker")
    parser.add_argument("--server", default="valkey-9.1", help="a kind of server of this machine")
    parser.add_argument("--folder", help="for logs; an empty one")
    parser.add_argument("--page", help="write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
