"""Tracks whether a store is open, and in which process and on which event loop."""

from __future__ import annotations

import asyncio
import os

from headrace.core.errors import BackendUnavailable


class OpenConnections:
    """All connections of a store share this object. They are made only while it is open."""

    def __init__(self) -> None:
        self._process = 0  # 0: not open
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        self._process = 0
        self._loop = None

    @property
    def is_open(self) -> bool:
        return self._process == os.getpid()

    @property
    def on_own_loop(self) -> bool:
        """Whether this process and this event loop opened the store."""
        return self.is_open and self._loop is asyncio.get_running_loop()

    def check(self, server: str) -> None:
        if self._process == 0:
            raise BackendUnavailable(f"the store on {server} is closed: open it again")
        if not self.is_open:
            raise BackendUnavailable(
                f"the store on {server} was opened by another process: open it in this one"
            )
