"""Several worker processes: starts them, passes signals on, and replaces those that die."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time

#: The variable with the process id of the supervisor.
SUPERVISOR = "HEADRACE_SUPERVISOR"

#: The variable with the number of a worker process: 1, 2, …
NUMBER = "HEADRACE_PROCESS_NUMBER"

#: Seconds before a child that died is replaced: doubled for each death in a row, up to the last.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0

#: After so many seconds of life, the next death counts as the first again.
PROVEN = 60.0

#: A child's exit code for wrong usage: starting it again would not help.
WRONG_USAGE = 2

logger = logging.getLogger("headrace")


class WorkerProcess:
    """One worker process, and the time of its next start."""

    def __init__(self, number: int, command: list[str]) -> None:
        self.number = number
        self._command = command
        self._deaths = 0
        self._started_at = 0.0
        self.restart_at: float | None = None
        self.done = False
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.restart_at = None
        self._started_at = time.monotonic()
        # A session of its own: Ctrl-C on the terminal reaches the supervisor alone, which passes it on once.
        environment = {**os.environ, SUPERVISOR: str(os.getpid()), NUMBER: str(self.number)}
        self.process = subprocess.Popen(self._command, env=environment, start_new_session=True)  # nosec B603 # our own program
        logger.info("worker process %d started, pid %d", self.number, self.process.pid)

    def send(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def died(self) -> float:
        """Count a death; the seconds until the process is replaced."""
        lived = time.monotonic() - self._started_at
        self._deaths = 1 if lived > PROVEN else self._deaths + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._deaths - 1))
        self.restart_at = time.monotonic() + pause
        return pause


class Supervisor:
    """The parent of `--processes N`."""

    def __init__(self, target: str, processes: int, *, burst: bool, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "headrace", "worker", target, *arguments]
        self._children = [WorkerProcess(number + 1, command) for number in range(processes)]
        self._burst = burst
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Run until every process has ended for good. Returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        for child in self._children:
            self._start(child)
        while not all(child.done for child in self._children):
            for child in self._children:
                self._look_after(child)
            time.sleep(0.1)
        return self._exit_code

    def _start(self, child: WorkerProcess) -> None:
        child.start()
        if self._stopping:  # the signal came while it was being started, and went past it
            child.send(signal.SIGTERM)

    def _pass_on(self, *_: object) -> None:
        self._stopping = True
        for child in self._children:
            child.send(signal.SIGTERM)

    def _look_after(self, child: WorkerProcess) -> None:
        if child.done or child.process is None:
            return
        if child.restart_at is not None:
            self._restart_when_due(child)
            return
        code = child.process.poll()
        if code is not None:
            self._ended(child, code)

    def _restart_when_due(self, child: WorkerProcess) -> None:
        if self._stopping:
            child.done = True
        elif child.restart_at is not None and time.monotonic() >= child.restart_at:
            self._start(child)

    def _ended(self, child: WorkerProcess, code: int) -> None:
        if self._stopping or code == WRONG_USAGE or (self._burst and code == 0):
            child.done = True
            self._exit_code = max(self._exit_code, self._counted(code))
            if code == WRONG_USAGE and not self._stopping:
                self._pass_on()
            return
        self._died(child, code)

    def _counted(self, code: int) -> int:
        """A child's exit code as a part of ours. A child that is stopped during its start is no failure."""
        if self._stopping and code == -signal.SIGTERM:
            return 0
        return code if code >= 0 else 1

    def _died(self, child: WorkerProcess, code: int) -> None:
        pause = child.died()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        logger.error("worker process %d died (%s), replaced in %.1f s", child.number, how, pause)
