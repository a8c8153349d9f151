"""Gathers outcomes and writes them in batches: whatever came while the last write was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from headrace.core.errors import BackendUnavailable, RequestRefused
from headrace.core.outcome import Dead, Settlement, Verdict

from .emitter import Emitter
from .finished import Finished
from .service import Service
from .streams import StreamRouter

#: Settlements in one write.
BATCH = 500


class Settler:
    """No timers: a lone outcome is written at once, a flood in hundreds."""

    def __init__(
        self,
        backend: StreamRouter,
        *,
        emitter: Emitter,
        written: Callable[[list[Finished], list[Verdict], bool], None],
        refused: Callable[[Settlement, Exception], Dead],
    ) -> None:
        self._backend = backend
        self._refused = refused
        self._written = written
        self._gathered: list[Finished] = []
        self._empty = asyncio.Event()
        self._empty.set()
        self._doubtful = False  # the last write failed: some of it may have been carried out
        self._service = Service("settler", self._step, emitter=emitter)
        self.start = self._service.start
        self.stop = self._service.stop

    def __len__(self) -> int:
        return len(self._gathered)

    def put(self, finished: Finished) -> None:
        self.put_all([finished])

    def put_all(self, finished: list[Finished]) -> None:
        if not self._gathered:
            self._empty.clear()
            self._service.poke()
        self._gathered += finished

    async def flushed(self, timeout: float) -> bool:
        """Wait until everything is written; False after `timeout` seconds."""
        try:
            await asyncio.wait_for(self._empty.wait(), timeout)
        except TimeoutError:
            return False
        return True

    async def _step(self) -> float | None:
        if not self._gathered:
            self._empty.set()
            return 3600.0  # put() pokes
        doubtful, self._doubtful = self._doubtful, False
        try:
            await self._write(self._gathered[:BATCH], doubtful)
        except BackendUnavailable:
            self._doubtful = True
            raise
        return None

    async def _write(self, batch: list[Finished], doubtful: bool) -> None:
        try:
            verdicts = await self._backend.settle(batch)
        except Exception as error:
            if _is_away(error):
                raise
            await self._write_apart(batch)
        else:
            self._conclude(batch, verdicts, doubtful)

    async def _write_apart(self, batch: list[Finished]) -> None:
        """One of them is to blame: each alone, so that the others do not suffer."""
        trouble: Exception | None = None
        for finished in batch:
            try:
                written, verdicts = finished, await self._backend.settle([finished])
            except Exception as error:
                if _is_away(error):
                    raise
                written, verdicts = await self._bury(finished, error, alone=finished is batch[0])
                trouble = error
            self._conclude([written], verdicts, doubtful=True)
        if trouble is not None:
            raise trouble

    async def _bury(
        self, finished: Finished, error: Exception, *, alone: bool
    ) -> tuple[Finished, list[Verdict]]:
        """How it ended will never be written: to the dead letters with it. `alone`: nothing was written
        since the store began to refuse."""
        dead = self._refused(finished, error)
        buried = msgspec.structs.replace(finished, outcome=dead, failure=dead.failure)
        try:
            return buried, await self._backend.settle([buried])
        except Exception as another:
            if _is_away(another):
                raise
            if alone and isinstance(another, RequestRefused):
                # Perhaps it refuses everything, and will not for ever. The next try begins with another one.
                self._gathered.append(self._gathered.pop(0))
                raise
            # Let its lease run out, so that it is found and counted.
            return finished, [Verdict.LOST]

    def _conclude(self, batch: list[Finished], verdicts: list[Verdict], doubtful: bool) -> None:
        """The store has answered: let go of the batch, and tell."""
        del self._gathered[: len(batch)]
        self._written(batch, verdicts, doubtful)


def _is_away(error: Exception) -> bool:
    """Whether it says nothing of what was to be written: the same may be taken later."""
    return isinstance(error, BackendUnavailable) and not isinstance(error, RequestRefused)
