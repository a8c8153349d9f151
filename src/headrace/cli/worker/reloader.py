"""`--reload`: starts the worker again when a Python file below the working directory changes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .supervisor import SUPERVISOR

#: Seconds between two looks at the files.
LOOK = 0.5

#: The variable of `--reload` itself, which the worker must not see.
RELOAD = "HEADRACE_RELOAD"

#: A folder with this file is an environment with installed packages.
_ENVIRONMENT = "pyvenv.cfg"

logger = logging.getLogger("headrace")


class SourceFiles:
    """The Python files below a folder. Hidden folders and environments are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = dict(self._scan())

    def changed(self) -> list[str]:
        """The files that were written, made or removed since the last look."""
        before, self._times = self._times, dict(self._scan())
        paths = {path for path, _ in before.items() ^ self._times.items()}
        return sorted(os.path.relpath(path, self._folder) for path in paths)

    def _scan(self) -> Iterator[tuple[str, int]]:
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [each for each in folders if _is_source(os.path.join(folder, each))]
            for name in files:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    try:
                        yield path, os.stat(path).st_mtime_ns
                    except OSError:
                        pass  # removed since it was listed


class Reloader:
    """The parent of a worker that is started again and again."""

    def __init__(self, target: str, arguments: list[str]) -> None:
        self._command = [sys.executable, "-m", "headrace", "worker", target, *arguments]
        self._files = SourceFiles(Path.cwd())
        self._stopping = False
        self._worker = self._started()

    def run(self) -> int:
        """Run until a signal comes. Returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping:
            self._until_change()
        return max(0, self._worker.wait())

    def _until_change(self) -> None:
        """Wait for a change or a stop. At a change the worker stops as at SIGTERM: running jobs end within
        the grace, or are handed back."""
        ended = False
        while not self._stopping:
            time.sleep(LOOK)
            if changed := self._files.changed():
                self._start_again(changed)
                return
            if not ended and self._worker.poll() is not None and not self._stopping:
                ended = True
                logger.warning("the worker has ended; it starts again when a file changes")

    def _start_again(self, changed: list[str]) -> None:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        logger.info("%s%s changed: the worker starts again", changed[0], more)
        self._worker.terminate()
        self._worker.wait()
        if not self._stopping:
            self._worker = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, SUPERVISOR: str(os.getpid())}
        environment.pop(RELOAD, None)
        # A session of its own: Ctrl-C on the terminal reaches this process alone, which passes it on once.
        return subprocess.Popen(self._command, env=environment, start_new_session=True)  # nosec B603 # our own program

    def _stop(self, *_: object) -> None:
        self._stopping = True
        self._worker.terminate()


def _is_source(folder: str) -> bool:
    hidden = os.path.basename(folder).startswith((".", "__pycache__"))
    return not hidden and not os.path.exists(os.path.join(folder, _ENVIRONMENT))
