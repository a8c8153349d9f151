"""Notices the end of a child process before it is reaped. Until then no other process group can get its
number."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


class ExitWatch:
    """Calls `exited` once, on the running event loop, when the child process has ended."""

    def __init__(self, process: subprocess.Popen[bytes], exited: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._exited = exited
        self._descriptor = _open(process.pid)
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._tell)
        else:
            wait = threading.Thread(target=self._wait, args=(process,), name="headrace exit", daemon=True)
            wait.start()

    def close(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        self._exited = _no_listener

    def _tell(self) -> None:
        exited = self._exited
        self.close()
        exited()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait in a thread for each process, on systems without process descriptors."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # the user's program has reaped it
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:
            pass  # the loop is closed: no caller waits any more


def _open(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a container that forbids it
            return None
        raise


def _no_listener() -> None: ...
