"""The crews of a fleet: started, watched and killed by pid. Their logs say when each job began, and where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from tests.torture.facts import Fact, LogReader
from tests.torture.fleet import ROOT, wait_until

#: Seconds until all workers of a crew have started.
READY: Final = 240.0


class CrewPlan(msgspec.Struct, frozen=True):
    """How many workers one process has, with how many slots and queues each."""

    workers: int
    slots: int
    queues: int = 1


class Crews:
    """All crews on one server."""

    def __init__(self, url: str, folder: Path, plans: list[CrewPlan]) -> None:
        self.places: dict[int, Fact] = {}  #: of each job that is held: where it began last
        self.begun: dict[int, float] = {}  #: of each quick job: when it began, seconds since 1970
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ready: set[str] = set()
        self._folder = folder
        self._reader = LogReader(folder, removes=True)
        self._url = url
        self._plans = {f"crew-{plan.workers}-{number}": plan for number, plan in enumerate(plans)}

    async def start(self) -> None:
        """One after the other: a process that starts a hundred workers is busy."""
        for name, plan in self._plans.items():
            words = [name, self._url, str(self._folder), plan.workers, plan.slots, plan.queues]
            with (self._folder / f"{name}.txt").open("wb") as sink:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "tests.torture.fleet_scale.crew", *map(str, words)],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=sink,
                    stderr=sink,
                )
        await wait_until(self._all_ready, timeout=READY)

    def release(self) -> None:
        """Let every second job end."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()

    def look(self) -> None:
        """Read what the crews wrote."""
        for fact in self._reader.new():
            if fact.kind == "working":
                self._ready.add(fact.process)
            elif (number := int(fact.message)) < 0:
                self.begun[number] = fact.wall
            else:
                self.places[number] = fact

    def held_by(self, crew: str) -> set[int]:
        """The jobs that began there last, and do not end when they are released."""
        self.look()
        return {number for number, fact in self.places.items() if fact.process == crew and number % 2}

    def crew_of(self, workers: int) -> str:
        return next(name for name, plan in self._plans.items() if plan.workers == workers)

    def kill(self, crew: str) -> None:
        process = self._processes.pop(crew)
        process.kill()
        process.wait()

    def _all_ready(self) -> bool:
        self.look()
        ended = {name: each.poll() for name, each in self._processes.items() if each.poll() is not None}
        assert not ended, f"crews ended: {ended}; see {self._folder}"
        return self._ready == set(self._plans)

    def __enter__(self) -> Crews:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for crew in list(self._processes):
            self.kill(crew)
