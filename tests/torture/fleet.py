"""Real processes and real stores: started, watched and ended by pid. What the harness needs of the other
suites is imported here alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, Literal

from tests.integration.support.resp import Cutter, words_of
from tests.support.listener import Listener
from tests.support.postgres_server import USER, PostgresServer, nobodys_folder
from tests.support.postgres_server import programs as postgres_programs
from tests.support.server_groups import MASTER, Cluster, Watched, follows
from tests.support.servers import HOST, Server, ServerError, available
from tests.support.stepped_clock import MISSING as CLOCK_MISSING
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import wait_until, wait_until_sync

from .facts import LogReader, Recorder
from .program import DURABILITY, FOLDER, NAME, RATE, SEED, STOP, URL, Durability

__all__ = [
    "CLOCK_MISSING",
    "HOST",
    "MASTER",
    "USER",
    "Cluster",
    "Cutter",
    "Fleet",
    "Listener",
    "Member",
    "PostgresServer",
    "Role",
    "Server",
    "ServerError",
    "SteppedClock",
    "Watched",
    "available",
    "children_of",
    "follows",
    "nobodys_folder",
    "postgres_programs",
    "wait_until",
    "wait_until_sync",
    "words_of",
]

ROOT: Final = Path(__file__).parents[2]

Role = Literal["worker", "producer"]

#: Starts a program as a user that limits hold for, and who may read and write the files of root.
AS_NOBODY: Final = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_override", "--ambient-caps=+dac_override", "--bounding-set=-all,+dac_override"),
)

#: Seconds within which a process must be ready for work, also on a machine that is very busy.
READY: Final = 240.0

#: Seconds that running jobs have after SIGTERM: a few take longer, and are handed back. Then the worker ends.
GRACE: Final = 1.0
ENDS: Final = 40.0


class Member:
    """One worker or producer. Its name is never used again."""

    def __init__(
        self,
        name: str,
        role: Role,
        process: subprocess.Popen[bytes],
        output: Path,
        clock: SteppedClock | None = None,
    ) -> None:
        self.name = name
        self.role = role
        self.pid = process.pid
        self.output = output
        self.clock = clock  #: its own, or that of all where the store has none
        self._process = process

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def children(self) -> list[int]:
        """The child processes of a worker, by pid."""
        return children_of(self.pid)

    @property
    def stands_still(self) -> bool:
        """Whether every thread of it is stopped."""
        states: list[str] = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                states.append(path.read_text().rpartition(")")[2].split()[0])
        return all(state == "T" for state in states)


class Fleet:
    """The processes of one round. `url` is how they reach the store. `workload` is the name of a file in
    `workloads/`, or the whole name of a module. `clock`: one that can be set, for all of them, or beside
    which each has its own. `prefix`: the words that start them as another user."""

    def __init__(
        self,
        *,
        workload: str,
        url: str,
        seed: str,
        lease: float,
        rate: float | None,
        folder: Path,
        recorder: Recorder,
        concurrency: int = 30,
        environment: Mapping[str, str] | None = None,
        durability: Durability = "default",
        clock: SteppedClock | None = None,
        own_clocks: bool = False,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.lease = lease
        self.members: list[Member] = []
        self.stopped: set[int] = set()  #: the pids of those that ended in good order
        self._workload = workload if "." in workload else f"tests.torture.workloads.{workload}"
        self._recorder = recorder
        self._concurrency = concurrency
        self._numbers = count(1)
        self._environment = {
            **os.environ,
            URL: url,
            FOLDER: str(folder),
            SEED: seed,
            DURABILITY: durability,
            **(environment or {}),
        }
        self._clock = clock
        self._own_clocks = own_clocks
        self._prefix = prefix
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if rate is not None:
            self._environment[RATE] = str(rate)
        self._ready: set[str] = set()
        self._accepted = 0
        self._wanted: dict[Role, int] = {"worker": 0, "producer": 0}
        self._filling = asyncio.Lock()
        self._reader = LogReader(folder)

    def of(self, role: Role) -> list[Member]:
        """Those that run."""
        return [member for member in self.members if member.role == role and not member.ended]

    async def start_worker(self, environment: Mapping[str, str]) -> Member:
        """One more worker than are wanted. Waits until it works, or has ended."""
        member = self._start("worker", environment)
        await self.until(lambda: member.name in self._working() or member.ended, READY)
        return member

    async def start(self, *, workers: int, producers: int) -> None:
        self._wanted = {"worker": workers, "producer": producers}
        await self.fill_up()

    async def until_sending(self) -> None:
        """Wait until a message was accepted: a fault that comes before harms nothing."""
        await self.until(self._is_sending, READY)

    async def fill_up(self) -> None:
        """Start others in place of those that are gone, and wait until they work."""
        async with self._filling:  # faults come in pairs
            await self._fill_up()

    async def _fill_up(self) -> None:
        self.note_the_gone()
        started = [
            self._start(role)
            for role, wanted in self._wanted.items()
            for _ in range(wanted - len(self.of(role)))
        ]
        await self.until(lambda: all(each.name in self._working() or each.ended for each in started), READY)
        self.note_the_gone()

    def note_the_gone(self) -> None:
        """Write down who has ended, each once."""
        for member in [member for member in self.members if member.ended]:
            self._recorder_of(member).write("gone", value=str(member.exit_code))
            self.members.remove(member)

    async def stop_producers(self, timeout: float) -> None:
        self._wanted["producer"] = 0
        (self.folder / STOP).touch()
        await self.until(lambda: not self.of("producer"), timeout)
        self.note_the_gone()

    async def stop_workers(self) -> None:
        self._wanted["worker"] = 0
        workers = self.of("worker")
        for member in workers:
            member.send(signal.SIGTERM)
        await self.until(lambda: not self.of("worker"), ENDS)
        self.stopped |= {member.pid for member in workers if member.exit_code == 0}
        self.note_the_gone()

    async def until(self, condition: Callable[[], object], timeout: float) -> None:
        await wait_until(condition, timeout=timeout, message=self._last_words)

    def clear_away(self) -> None:
        """Kill what still runs, with the children of workers."""
        for member in [member for member in self.members if not member.ended]:
            children = member.children()
            member.send(signal.SIGKILL)
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            member._process.wait(10)

    def _start(self, role: Role, environment: Mapping[str, str] | None = None) -> Member:
        number = next(self._numbers)
        name = f"{role}-{number}"
        output = self.folder / f"{name}.txt"
        clock = self._clock.another(name) if self._clock and self._own_clocks else self._clock
        times = clock.environment if clock else {}
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [*self._prefix, *self._command(role)],
                cwd=ROOT,
                env={**self._environment, **times, **(environment or {}), NAME: name},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        member = Member(name, role, process, output, clock)
        self.members.append(member)
        return member

    def _command(self, role: Role) -> list[str]:
        if role == "producer":
            return [sys.executable, "-m", "tests.torture.produce", self._workload]
        target = f"{self._workload}:app"
        options = ["--lease", str(self.lease), "--grace", str(GRACE), "--concurrency", str(self._concurrency)]
        return [sys.executable, "-m", "headrace", "worker", target, "--log-level", "warning", *options]

    def _working(self) -> set[str]:
        self._look()
        return self._ready

    def _is_sending(self) -> bool:
        self._look()
        return self._accepted > 0

    def _look(self) -> None:
        for fact in self._reader.new():
            if fact.kind == "working":
                self._ready.add(fact.process)
            elif fact.kind == "accepted":
                self._accepted += 1

    def _recorder_of(self, member: Member) -> Recorder:
        """A log beside that of the member, in its name."""
        return Recorder(self.folder, member.name)

    def _last_words(self) -> str:
        tails = [
            f"--- {member.name}\n" + "\n".join(member.output.read_text(errors="replace").splitlines()[-15:])
            for member in self.members
        ]
        return "\n".join(tails)


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


async def briefly(seconds: float) -> None:
    """A pause of a fault, or between faults: time is what they are made of."""
    await asyncio.sleep(seconds)
