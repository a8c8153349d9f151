"""Makes entries of the history from jobs that have ended."""

from __future__ import annotations

from typing import Final

from headrace.core.history.ended_job import EndedJob, encode_ended
from headrace.core.history.entry import HistoryEntry
from headrace.core.messages.claim import Claim
from headrace.core.messages.message import State
from headrace.core.messages.outcome import Cancelled, Dead, Done, Expired, Outcome
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import microseconds
from headrace.engine.running.finished import FinishedRun

from .keeping import HistoryKeeping
from .masking import masked_body

#: Bytes of arguments that an entry of a ring keeps. Where every job is kept, all of them are.
MOST_ARGUMENTS: Final = 256 * 1024

STATUSES: Final[dict[type[Outcome], JobStatus]] = {
    Done: JobStatus.SUCCEEDED,
    Dead: JobStatus.DEAD,
    Cancelled: JobStatus.CANCELLED,
    Expired: JobStatus.EXPIRED,
}


class EntryMaker:
    """Belongs to one worker."""

    def __init__(self, worker: str, keeping: HistoryKeeping) -> None:
        self._worker = worker
        self._codec = keeping.codec
        self._ttl_us = keeping.ttl_us
        self._most = None if keeping.every_job else MOST_ARGUMENTS

    def of_run(self, finished: FinishedRun, ended_us: int) -> HistoryEntry:
        """The entry of a job whose last run has ended at this time, on the store's clock."""
        claim, outcome = finished.claim, finished.outcome
        dead = outcome if isinstance(outcome, Dead) else None
        body, note = self._masked(claim.id, claim.body)
        state = _state(claim, outcome)
        # The settlement is written some time after the run. When a run fails, its trail says when it ended.
        run_ended_us = state.trail[-1].at_us if state.trail[-1:] != claim.state.trail[-1:] else ended_us
        ended = EndedJob(
            body=body,
            started_us=run_ended_us - microseconds(finished.seconds) if finished.seconds else 0,
            worker=self._worker,
            state=state,
            priority=claim.priority,
            reason=dead.reason.value if dead else "",
            failure=dead.failure if dead else None,
            note=note,
        )
        return self._entry(claim.id, finished.task, STATUSES[type(outcome)], ended_us, ended)

    def of_record(self, record: Record) -> HistoryEntry:
        """The entry of a job that has ended without a run of this worker."""
        body, note = self._masked(record.id, record.body or b"")
        ended = EndedJob(
            body=body,
            worker=record.worker,
            state=record.state,
            priority=record.priority,
            reason=record.reason.value if record.reason else "",
            failure=record.failure,
            note=note,
        )
        return self._entry(record.id, record.task, record.status, record.ended_us, ended)

    def _entry(self, id: str, task: str, status: JobStatus, ended_us: int, ended: EndedJob) -> HistoryEntry:
        until_us = ended_us + self._ttl_us if self._ttl_us else 0
        return HistoryEntry(id, task, status.value, ended_us, encode_ended(ended), until_us)

    def _masked(self, id: str, body: bytes) -> tuple[bytes | None, str]:
        try:
            return masked_body(id, body, self._codec, self._most), ""
        except Exception as error:  # a codec may raise anything
            return None, f"its arguments cannot be read: {error}"


def _state(claim: Claim, outcome: Outcome) -> State:
    if isinstance(outcome, Expired) or outcome.state is None:
        return claim.state
    return outcome.state
