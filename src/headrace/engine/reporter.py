"""Writes how far running jobs have come: what has changed since the last time, together."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.backend import Backend
from headrace.core.claim import Claim

from .emitter import Emitter
from .run import Run
from .service import Service

#: Seconds between two writes, however often jobs say how far they are.
REPORT_EVERY = 0.5

#: Reports written in one step of the store.
BATCH = 500


class Reporter:
    def __init__(self, backend: Backend, *, running: Mapping[Claim, Run], emitter: Emitter) -> None:
        self._backend = backend
        self._running = running
        self._service = Service("reporter", self._report, emitter=emitter)
        self.start = self._service.start
        self.stop = self._service.stop

    async def _report(self) -> float | None:
        changed = [run for run in self._running.values() if run.reported is not run.written]
        for start in range(0, len(changed), BATCH):
            batch = [(run, run.reported) for run in changed[start : start + BATCH]]
            await self._backend.report([report for _, report in batch if report is not None])
            for run, report in batch:
                run.written = report  # what was said meanwhile is another, and goes with the next
        return REPORT_EVERY
