"""Holds what exists between `open` and `close`: two threads, their connections, and the waiters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from headrace.core.errors import BackendUnavailable
from headrace.core.runtime.clock import TimeSource
from headrace.stores.sqlite.connection.connection import Connection, Synchronous
from headrace.stores.sqlite.connection.schema import bring_up_to_date
from headrace.stores.sqlite.file.reserved_room import ReservedRoom

from .commit_signals import CommitSignals
from .reader import ReaderThread
from .step import NothingToWrite, ReadStep, WriteStep
from .waiters import Waiters
from .writer import WriterThread

T = TypeVar("T")


class OpenFile:
    """Belongs to the event loop and the process that created it."""

    def __init__(self, path: Path, *, namespace: str, synchronous: Synchronous, clock: TimeSource) -> None:
        self._path = path
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self.closing = False
        self.waiters = Waiters(namespace=namespace, clock=clock, look_now=self._look_now)
        self._writer = WriterThread(
            Connection(path, synchronous=synchronous, checkpoints=False, prepare=bring_up_to_date),
            self.waiters.notify,
            namespace=namespace,
            synchronous=synchronous,
            clock=clock,
            is_awaited=self.waiters.is_an_end_awaited,
        )
        self._reader = ReaderThread(
            Connection(path, query_only=True, prepare=bring_up_to_date),
            self.waiters.notify,
            waiters=self.waiters,
        )
        self._signals = CommitSignals(
            path, on_signal=self._reader.look_now, is_awaited=self.waiters.is_anything_awaited
        )

    @property
    def on_own_loop(self) -> bool:
        """Whether this call runs in the process and on the event loop that created the object."""
        return self._process == os.getpid() and self._loop is asyncio.get_running_loop()

    async def open(self) -> None:
        self._writer.start()
        self._reader.start()
        try:
            # Opens the connections; the first one also creates the tables.
            await self.write(_connect())
            await self.read(self.waiters.start_from_here)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what was submitted, and leave no thread and no connection behind."""
        self.stop()
        self.waiters.wake_all()
        await self._writer.stopped()
        await self._reader.stopped()
        ReservedRoom(self._path).release_if_unused()

    def stop(self) -> None:
        """Close without waiting, for an event loop that is gone. A forked child has no threads to end."""
        self.closing = True
        self._signals.close(on_own_loop=self.on_own_loop)
        if self._process == os.getpid():
            self._writer.stop()
            self._reader.stop()

    def write(self, step: WriteStep[T]) -> asyncio.Future[T]:
        self._check_open()
        self._writer.submit(step)
        return step.future

    def write_at_once(self, step: WriteStep[T]) -> bool:
        """Try to run the step on the event loop at once. False: it is still to be written."""
        self._check_open()
        return self._writer.write_at_once(step)

    def read(self, run: Callable[[Connection], T]) -> asyncio.Future[T]:
        self._check_open()
        read = ReadStep(run)
        self._reader.submit(read)
        return read.future

    def _look_now(self) -> None:
        """A caller begins to wait: look at the file at once, and later when another process signals."""
        self._signals.arm()
        self._reader.look_now()

    def _check_open(self) -> None:
        if self.closing:
            raise BackendUnavailable(f"the SQLite store {self._path} was closed: open it again")


def _connect() -> WriteStep[Any]:
    return WriteStep(lambda _: None, shortcut=lambda _: NothingToWrite(None))
