"""The demo's workers: real processes, which may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from .shop import FOLDER

#: Seconds: short, so that the jobs of the killed worker come back while one looks on.
LEASE = 2.0

CONCURRENCY = 10


class Crew:
    """Workers that end with the demo, whatever happens to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            process.wait(20)

    def start(self) -> int:
        """Start a worker; answers its pid."""
        command = [sys.executable, "-m", "headrace", "worker", "headrace.cli.demo.shop:app"]
        command += ["--lease", str(LEASE), "--concurrency", str(CONCURRENCY), "--grace", "5"]
        output = self._folder / f"worker-{len(self._processes) + 1}.log"
        with output.open("wb") as sink:
            environment = {**os.environ, FOLDER: str(self._folder)}
            process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
        self._processes.append(process)
        return process.pid

    def kill(self, pid: int) -> None:
        """As the kernel does when memory runs out: no warning, no good-bye."""
        for process in self._processes:
            if process.pid == pid:
                process.kill()
                process.wait(10)
