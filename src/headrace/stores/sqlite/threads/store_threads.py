"""Routes every verb: to the writer's thread as a write step, or to the reader's thread as a read step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import TimeSource
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.faults import DamagedFile

from .open_file import OpenFile
from .step import NothingToWrite, WriteStep
from .transaction import Transaction

T = TypeVar("T")
P = ParamSpec("P")


class StoreThreads:
    """The base of the classes that make up the store."""

    def __init__(self, path: Path, *, namespace: str, clock: TimeSource) -> None:
        self._path = path
        self._namespace = namespace
        self._clock = clock
        self._open_file: OpenFile | None = None
        self._woken: set[str] = set()
        self._wants_order: dict[Stream, bool] = {}  # of the groups that this process has joined

    def wake(self, consumer: str) -> None:
        self._woken.add(consumer)
        if self._open_file is not None:
            self._open_file.waiters.wake(consumer)

    def _was_woken(self, consumer: str) -> bool:
        woken = consumer in self._woken
        self._woken.discard(consumer)
        return woken

    def _use(self) -> OpenFile:
        open_file = self._open_file
        if open_file is None or not open_file.on_own_loop:
            raise BackendUnavailable(
                f"the SQLite store {self._path} is not open in this process and event loop: open it first"
            )
        return open_file

    async def _write(
        self,
        run: Callable[[Transaction], T],
        *,
        shortcut: Callable[[Connection], NothingToWrite[T] | None] | None = None,
        durable: bool = True,
        urgent: bool = True,
        weight: int = 1,
    ) -> T:
        step = WriteStep(run, shortcut=shortcut, durable=durable, urgent=urgent, weight=weight)
        return await self._use().write(step)

    async def _apart(
        self, streams: Sequence[Stream], run: Callable[[Sequence[Stream]], Awaitable[T]]
    ) -> AsyncIterator[T]:
        """One answer for all streams together, or, when the rows of one are damaged, an answer for each."""
        try:
            yield await run(streams)
            return
        except DamagedFile:
            if len(streams) == 1:
                raise
        for stream in streams:
            with suppress(DamagedFile):
                yield await run([stream])

    async def _read(
        self, run: Callable[Concatenate[Connection, str, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Call a function in the reader's thread, with its connection and the namespace."""
        return await self._use().read(lambda connection: run(connection, self._namespace, *args, **options))
