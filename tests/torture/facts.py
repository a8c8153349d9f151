"""Facts: what the processes of the harness write down, each in a log file of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

#: Facts of a file. Then a log goes on in the next one, so that a long run can remove what was read.
FACTS_OF_A_FILE = 50_000

#: What a fact says:
#:
#: - `invoked`: a producer is about to send a message; `plan` says what it promises
#: - `accepted`, `refused`, `uncertain`: how the send ended
#: - `started`, `ended`: a run of a handler; `value` says how it ended
#: - `lost`: a worker heard that it no longer holds a message
#: - `strange`: a run failed with an error that the program does not raise; `value` is the error
#: - `result`: a result was read; `value` is the message for which it was made
#: - `unread`: no result came within the time that a reader waited
#: - `dead`, `cancelled`, `expired`: how a message ended without success
#: - `group`: a group reads a topic; `value` is the topic
#: - `replayed`: a group reads a topic again, from here on
#: - `schedule`: the job of a schedule for the time `due` was its last; `value` is its name
#: - `working`, `gone`: a process is ready for work, or has ended; `value` is then its exit code
#: - `fault_begun`, `fault_ended`: with the name of the fault as `value`, and what it hits
#: - `left`: something is left in the store after draining
#: - `drained`: nothing is queued or running any more
Kind = Literal[
    "invoked",
    "accepted",
    "refused",
    "uncertain",
    "started",
    "ended",
    "lost",
    "strange",
    "result",
    "unread",
    "dead",
    "cancelled",
    "expired",
    "group",
    "replayed",
    "schedule",
    "working",
    "gone",
    "fault_begun",
    "fault_ended",
    "left",
    "drained",
]


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is promised of a message when it is sent."""

    topic: str = ""  # of an event
    task: str = ""  # of a job
    key: str = ""  # its ordering key
    position: int = 0  # its place among those of its key
    limit: str = ""  # of a job: what it counts for while it runs
    most: int = 0  # how many may run at once that count for the same
    delay: float = 0.0  # seconds before which it must not run
    attempts: int = 1  # how many runs may fail or crash: the first and the retries of its policy
    fails: int = 0  # how many runs fail on purpose
    unique: str = ""  # of a job: its unique key
    may_crash: bool = False  # it takes its process down on purpose
    may_die: bool = False  # it may end in the dead letters though no fault has hit it
    result: bool = False  # its result is kept
    schedule: str = ""  # of a job that a schedule enqueued: its name
    every: float = 0.0  # the interval of that schedule, in seconds
    catches_up: bool = False  # whether times at which no worker ran have a job too


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a log. `at` is on the monotonic clock, which all processes of a machine share."""

    kind: Kind
    at: float
    wall: float
    process: str
    seq: int
    pid: int = 0
    message: str = ""
    job: str = ""
    run: str = ""
    group: str = ""
    attempt: int = 0
    value: str = ""
    plan: Plan | None = None
    duplicate: bool = False
    targets: tuple[str, ...] = ()  # of a fault: processes, STORE or WORKERS
    loses: bool = False  # of a fault: what the store held may be gone
    gentle: bool = False  # of a fault: what has succeeded does not run again because of it
    due: float = 0.0  # of a schedule: seconds since 1970
    ahead: float = 0.0  # of a fault: seconds by which it sets the clock of the store ahead
    deadline: float = 0.0  # of a run: when its timeout interrupts it, on the monotonic clock


#: The target of a fault that hits the store, or the way to it: every process may notice.
STORE = "store"

#: The target of a fault that hits workers, whichever take what it sends.
WORKERS = "workers"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Fact)


class Recorder:
    """Appends facts to a file. One write for each, so that kill -9 loses nothing that was written."""

    def __init__(self, folder: Path | None, process: str) -> None:
        self.process = process
        self._folder = folder
        self._seq = count(1)
        self._written = count()
        self._files: dict[tuple[int, int], int] = {}  # by pid, since a child has its own, and number
        self._opening = threading.Lock()

    def write(
        self,
        kind: Kind,
        *,
        message: str = "",
        job: str = "",
        run: str = "",
        group: str = "",
        attempt: int = 0,
        value: str = "",
        plan: Plan | None = None,
        duplicate: bool = False,
        targets: tuple[str, ...] = (),
        loses: bool = False,
        gentle: bool = False,
        due: float = 0.0,
        ahead: float = 0.0,
        deadline: float = 0.0,
        at: float = 0.0,
    ) -> None:
        """Write a fact of now, or of the time `at` on the monotonic clock."""
        if self._folder is None:
            return
        fact = Fact(
            kind=kind,
            at=at or time.monotonic(),
            wall=time.time(),
            process=self.process,
            seq=next(self._seq),
            pid=os.getpid(),
            message=message,
            job=job,
            run=run,
            group=group,
            attempt=attempt,
            value=value,
            plan=plan,
            duplicate=duplicate,
            targets=targets,
            loses=loses,
            gentle=gentle,
            due=due,
            ahead=ahead,
            deadline=deadline,
        )
        os.write(self._file(self._folder), _encoder.encode(fact) + b"\n")

    def new_run(self) -> str:
        """A token for a run that nothing else has."""
        return f"{self.process}/{os.getpid()}/{next(self._seq)}"

    def _file(self, folder: Path) -> int:
        pid, number = os.getpid(), next(self._written) // FACTS_OF_A_FILE
        file = self._files.get((pid, number))
        return self._open(folder, pid, number) if file is None else file

    def _open(self, folder: Path, pid: int, number: int) -> int:
        """The file before the last is closed: another thread may still write to the last one."""
        with self._opening:
            if (pid, number) not in self._files:
                path = folder / f"{self.process}-{pid}-{number}.jsonl"
                self._files[pid, number] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            spent = self._files.pop((pid, number - 2), None)
            if spent is not None:
                os.close(spent)
            return self._files[pid, number]


class LogReader:
    """Reads what was added to the logs of a folder since it last looked. If it `removes`, files to which
    nothing will be added any more are removed after they are read."""

    def __init__(self, folder: Path, *, removes: bool = False) -> None:
        self._folder = folder
        self._removes = removes
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[Fact]:
        for path in sorted(self._folder.glob("*.jsonl")):
            spent = self._removes and _later(path, 2).exists()
            with suppress(FileNotFoundError), path.open("rb") as file:  # another reader may remove it
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
                self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
                yield from map(_decoder.decode, whole.splitlines())
            if spent:
                path.unlink()
                del self._read[path]


def _later(path: Path, files: int) -> Path:
    """The file with which the same log goes on so many files later."""
    name, _, number = path.stem.rpartition("-")
    return path.with_name(f"{name}-{int(number) + files}{path.suffix}")


def read_all(folder: Path) -> list[Fact]:
    """Every fact of a folder, in the order in which they happened."""
    return sorted(LogReader(folder).new(), key=lambda fact: fact.at)


def shown(fact: Fact) -> str:
    """A fact as one line for people, without what is empty."""
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(fact).items()
        if value and name not in ("kind", "at", "wall", "process", "seq", "plan")
    }
    words = " ".join(f"{name}={value}" for name, value in fields.items())
    plan = f" {fact.plan}" if fact.plan else ""
    return f"{fact.at:14.4f} {fact.process:<14} {fact.kind:<11} {words}{plan}"
