"""Writes the progress and the logs of running jobs. Each write holds all changes since the last one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.core.messages.claim import Claim, Report
from headrace.engine.emitter import Emitter
from headrace.engine.running.outcome_policy import OutcomePolicy
from headrace.engine.running.run import Run
from headrace.engine.service import Service
from headrace.engine.streams import StreamRouter

#: Seconds between two writes, however often jobs report progress.
REPORT_EVERY = 0.5

#: Reports written in one step of the store.
BATCH = 500


class ProgressWriter(Service):
    def __init__(
        self, backend: StreamRouter, *, running: Mapping[Claim, Run], policy: OutcomePolicy, emitter: Emitter
    ) -> None:
        self._backend = backend
        self._running = running
        self._policy = policy
        super().__init__("progress", self._report, emitter=emitter)

    async def _report(self) -> float | None:
        changed = [run for run in self._running.values() if run.reported is not run.written or _wrote(run)]
        for start in range(0, len(changed), BATCH):
            batch = [(run, run.reported) for run in changed[start : start + BATCH]]
            try:
                await self._backend.report_progress([self._whole(run, report) for run, report in batch])
            except BaseException:
                for run, _ in batch:
                    if run.log is not None:
                        run.log.unwritten = True
                raise
            for run, report in batch:
                run.written = report  # a newer report goes with the next write
        return REPORT_EVERY

    def _whole(self, run: Run, report: Report | None) -> Report:
        """The whole report: it replaces the one before, so it must be complete."""
        report = report or Report(run.claim)
        return report if run.log is None else msgspec.structs.replace(report, log=self._policy.log_of(run))


def _wrote(run: Run) -> bool:
    return run.log is not None and run.log.unwritten
