"""Real worker processes for tests, ended by pid and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from headrace import App
from tests.integration.programs.recording_app import CLOCK, DURABILITY, LOG, STORE, Log, make_app
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Server
from tests.support.waiting import wait_until

SHOP = "tests.integration.programs.recording_app:app"

ROOT = Path(__file__).parents[3]

#: Seconds: short, so that a test that waits for one to run out is quick.
LEASE = 1.0


class WorkerProcess:
    """`headrace worker` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output
        self.pid = process.pid

    @property
    def output(self) -> str:
        return self._output.read_text()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory runs out: no good-bye."""
        self._process.kill()
        self._process.wait(10)

    def exit_code(self, timeout: float = 20) -> int:
        """Wait for its end."""
        return self._process.wait(timeout)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def stands_still(self) -> bool:
        """Whether every thread of it is stopped."""
        states = [path.read_text().rpartition(")")[2].split()[0] for path in _threads(self.pid)]
        return all(state == "T" for state in states)

    def clear_away(self) -> None:
        if not self.ended:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait(10)


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/stat"))


class Workshop:
    """A store, the app that feeds it, and the workers that serve it. `server` is the store's own server, if
    it has one: no other test uses it, so it may be harmed."""

    def __init__(
        self,
        url: str,
        folder: Path,
        server: Server | None = None,
        *,
        database: PostgresServer | None = None,
        durability: str = "default",
    ) -> None:
        self.url = url
        self._durability = durability
        self._server = server
        self._database = database
        self.log = Log(folder / "log.jsonl")
        self.app: App = make_app(url, self.log, durability)
        self._folder = folder
        self._workers: list[WorkerProcess] = []

    @property
    def server(self) -> Server:
        assert self._server is not None
        return self._server

    @property
    def is_file(self) -> bool:
        return self.url.startswith("sqlite:")

    def restart_server(self) -> None:
        """Kill the server of the store, if it has one, and start it again."""
        for server in (self._server, self._database):
            if server is not None:
                server.kill()
                server.start()

    @property
    def workers(self) -> list[WorkerProcess]:
        return list(self._workers)

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def start(
        self,
        *flags: str,
        lease: float | None = LEASE,
        target: str = SHOP,
        url: str | None = None,
        clock: float = 0.0,
    ) -> WorkerProcess:
        """Start a worker and go on at once. It may reach the store by another way (`url`), and have a clock
        that is so many seconds ahead."""
        output = self._folder / f"worker-{len(self._workers)}.txt"
        command = [sys.executable, "-m", "headrace", "worker", target, *flags]
        if lease is not None:
            command += ["--lease", str(lease)]
        return self._launch(command, output, url=url or self.url, clock=clock)

    async def start_ready(
        self, *flags: str, lease: float | None = LEASE, url: str | None = None, clock: float = 0.0
    ) -> WorkerProcess:
        """Start a worker and wait until it takes jobs."""
        worker = self.start(*flags, lease=lease, url=url, clock=clock)
        await self.until(lambda: self.log.lines("working", pid=worker.pid) or worker.ended)
        assert not worker.ended, worker.output
        return worker

    def start_feeder(self, first: int, *, url: str | None = None) -> WorkerProcess:
        """A process that enqueues `quick` jobs with numbers from `first` on until it is ended, and writes
        down which were accepted (feeder.py)."""
        command = [sys.executable, "-m", "tests.integration.programs.producer", str(first)]
        return self._launch(command, self._folder / f"feeder-{first}.txt", url=url or self.url)

    def _launch(self, command: list[str], output: Path, *, url: str, clock: float = 0.0) -> WorkerProcess:
        said = {STORE: url, LOG: str(self.log.path), CLOCK: str(clock), DURABILITY: self._durability}
        environment = {**os.environ, **said}
        with output.open("wb") as sink:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=sink, stderr=sink)
        worker = WorkerProcess(process, output)
        self._workers.append(worker)
        return worker

    async def stop(self, worker: WorkerProcess) -> None:
        """SIGSTOP between two commits. During a commit it would hold SQLite's write lock, and no process
        could write."""
        await self._stand_still(worker)
        while self.is_file and not self._is_writable():
            worker.send(signal.SIGCONT)
            await self.until(self._is_writable)
            await self._stand_still(worker)

    async def _stand_still(self, worker: WorkerProcess) -> None:
        """One of its threads takes the signal and stops the others: until then they go on, and may commit."""
        worker.send(signal.SIGSTOP)
        await self.until(lambda: worker.stands_still)

    def check_integrity(self) -> None:
        """What a store can say of itself; a server would not have started."""
        if self.is_file:
            check = apsw.Connection(self.url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
            assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            check.close()

    def _is_writable(self) -> bool:
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(300)
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True

    async def until(self, condition: Any, timeout: float = 20) -> None:
        await wait_until(condition, timeout=timeout, message=self._story)

    def _story(self) -> str:
        return "\n".join([*map(str, self.log.lines()[-20:]), *(worker.output for worker in self._workers)])

    async def close(self) -> None:
        for worker in self._workers:
            worker.clear_away()
        await self.app.close()
