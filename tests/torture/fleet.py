"""Real processes and real stores: started, watched and ended by pid. What the harness needs of the other
suites is imported here alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final, Literal

from tests.integration.support.resp import Cutter, words_of
from tests.support.listener import Listener
from tests.support.servers import HOST, Server, ServerError, available
from tests.support.waiting import wait_until

from .facts import LogReader, Recorder
from .program import FOLDER, NAME, RATE, SEED, STOP, URL

__all__ = [
    "HOST",
    "Cutter",
    "Fleet",
    "Listener",
    "Member",
    "Role",
    "Server",
    "ServerError",
    "available",
    "wait_until",
    "words_of",
]

ROOT: Final = Path(__file__).parents[2]

Role = Literal["worker", "producer"]

#: Seconds within which a process must be ready for work.
READY: Final = 60.0

#: Seconds that running jobs have after SIGTERM: a few take longer, and are handed back. Then the worker ends.
GRACE: Final = 1.0
ENDS: Final = 40.0


class Member:
    """One worker or producer. Its name is never used again."""

    def __init__(self, name: str, role: Role, process: subprocess.Popen[bytes], output: Path) -> None:
        self.name = name
        self.role = role
        self.pid = process.pid
        self.output = output
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
        found: list[int] = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
        return found

    @property
    def stands_still(self) -> bool:
        """Whether every thread of it is stopped."""
        states: list[str] = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                states.append(path.read_text().rpartition(")")[2].split()[0])
        return all(state == "T" for state in states)


class Fleet:
    """The processes of one round. `url` is how they reach the store."""

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
    ) -> None:
        self.folder = folder
        self.lease = lease
        self.members: list[Member] = []
        self.stopped: set[int] = set()  #: the pids of those that ended in good order
        self._workload = workload
        self._recorder = recorder
        self._concurrency = concurrency
        self._numbers = count(1)
        self._environment = {**os.environ, URL: url, FOLDER: str(folder), SEED: seed}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if rate is not None:
            self._environment[RATE] = str(rate)
        self._ready: set[str] = set()
        self._wanted: dict[Role, int] = {"worker": 0, "producer": 0}
        self._filling = asyncio.Lock()
        self._reader = LogReader(folder)

    def of(self, role: Role) -> list[Member]:
        """Those that run."""
        return [member for member in self.members if member.role == role and not member.ended]

    async def start(self, *, workers: int, producers: int) -> None:
        self._wanted = {"worker": workers, "producer": producers}
        await self.fill_up()

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
            if member.exit_code == 0:
                self.stopped.add(member.pid)

    async def stop_producers(self, timeout: float) -> None:
        self._wanted["producer"] = 0
        (self.folder / STOP).touch()
        await self.until(lambda: not self.of("producer"), timeout)
        self.note_the_gone()

    async def stop_workers(self) -> None:
        self._wanted["worker"] = 0
        for member in self.of("worker"):
            member.send(signal.SIGTERM)
        await self.until(lambda: not self.of("worker"), ENDS)
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

    def _start(self, role: Role) -> Member:
        number = next(self._numbers)
        name = f"{role}-{number}"
        output = self.folder / f"{name}.txt"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                self._command(role),
                cwd=ROOT,
                env={**self._environment, NAME: name},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        member = Member(name, role, process, output)
        self.members.append(member)
        return member

    def _command(self, role: Role) -> list[str]:
        if role == "producer":
            return [sys.executable, "-m", "tests.torture.produce", self._workload]
        target = f"tests.torture.workloads.{self._workload}:app"
        options = ["--lease", str(self.lease), "--grace", str(GRACE), "--concurrency", str(self._concurrency)]
        return [sys.executable, "-m", "headrace", "worker", target, "--log-level", "warning", *options]

    def _working(self) -> set[str]:
        self._ready |= {fact.process for fact in self._reader.new() if fact.kind == "working"}
        return self._ready

    def _recorder_of(self, member: Member) -> Recorder:
        """A log beside that of the member, in its name."""
        return Recorder(self.folder, member.name)

    def _last_words(self) -> str:
        tails = [
            f"--- {member.name}\n" + "\n".join(member.output.read_text(errors="replace").splitlines()[-15:])
            for member in self.members
        ]
        return "\n".join(tails)


async def briefly(seconds: float) -> None:
    """A pause of a fault, or between faults: time is what they are made of."""
    await asyncio.sleep(seconds)
