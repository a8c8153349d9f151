"""A queue of a store and the model of jobs beside each other."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch, Stream
from headrace.core.records.answers import DeadFilter
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import SECOND, MovableClock, microseconds
from headrace.testing.contract.kit.stand import WORK
from headrace.testing.contract.machines.pair import HandOut, Pair
from headrace.testing.contract.under_test import StoreUnderTest

from .model import IDS, JobModel, ModelJob

#: The model counts whole seconds and a run takes a few: times that differ by less are the same.
TOLERANCE_US: Final = 10 * SECOND


class JobPair(Pair):
    def __init__(self, store: StoreUnderTest, clock: MovableClock, model: type[JobModel] = JobModel) -> None:
        super().__init__(store, clock)
        self._start_us = clock.now_us()
        self.model = model(self.clock)
        self.last_batches: dict[int, Batch] = {}

    @property
    def streams(self) -> dict[Stream, JobModel]:
        return {WORK: self.model}

    def fill(self, stream: Stream) -> None:
        """Appends are frequent, and an empty queue is a case as well."""

    def claim(self, stream: Stream, process: int, limit: int, suspects: int) -> list[HandOut]:
        worker, backend = f"worker-{process}", self.backends[process]
        claims = self.run(backend.claim([stream], consumer=worker, limit=limit, suspects=suspects, wait=0))
        ids = [claim.id for claim in claims]
        assert len(set(ids)) == len(ids)
        assert self.model.places(ids) in self.model.offers(limit, suspects)
        for claim in claims:
            self._compare_claim(claim)
        return self.hand_out(stream, claims, worker)

    def promote(self, process: int, limit: int) -> None:
        promoted = self.run(self.backends[process].promote([WORK], limit=limit))
        assert promoted.count == self.model.promote(limit)
        self._compare_next(promoted.next_in_us)

    def reclaim(self) -> None:
        self.model.next_moment()
        super().reclaim()

    def finish(self) -> None:
        """All that is left may be ended, which is checked for every test."""

    # --- comparison --------------------------------------------------------------------------------------

    def compare(self) -> None:
        self.compare_counts()
        self._compare_records()
        self._compare_dead_letters()

    def compare_counts(self) -> None:
        counts = self.run(self.backends[1].counts(WORK))
        model = self.model
        assert counts.queued == model.count(JobStatus.QUEUED)
        assert counts.running == model.count(JobStatus.RUNNING)
        assert counts.scheduled == model.count(JobStatus.SCHEDULED)
        assert counts.retrying == model.count(JobStatus.RETRYING)
        assert counts.dead == model.count(JobStatus.DEAD)
        assert counts.due == len(model.due())
        assert counts.paused == model.paused
        assert bool(counts.oldest_us) == bool(counts.queued)

    def _compare_next(self, next_in_us: int | None) -> None:
        next_due = self.model.next_due()
        assert (next_in_us is None) == (next_due is None)
        if next_in_us is not None and next_due is not None:
            assert abs(next_in_us - microseconds(next_due)) < TOLERANCE_US

    def _compare_records(self) -> None:
        for id in IDS:
            record = self.run(self.backends[0].get(WORK, id))
            assert (record.status if record else JobStatus.UNKNOWN) is self.model.status(id)
            if record is not None and id in self.model.messages:
                self._compare_living(record, self.model.messages[id])
            elif record is not None and (end := self.model.end_record(id)):
                assert record.result == end.result

    def _compare_living(self, record: Record, job: ModelJob) -> None:
        state = record.state
        assert (record.body, record.priority, record.task) == (job.body, job.priority, "greet")
        assert (state.failures, state.crashes, state.releases) == (job.failures, job.crashes, job.releases)
        assert record.worker == (job.worker if job.status is JobStatus.RUNNING else "")
        if job.waits_for_its_time and not job.expired(self.model.now):
            self._compare_time(record.due_us, job.due)

    def _compare_dead_letters(self) -> None:
        page = self.run(self.backends[1].dead_letters(WORK, only=DeadFilter()))
        assert [letter.id for letter in page] == self.model.dead[::-1]

    def _compare_claim(self, claim: Claim) -> None:
        job, state = self.model.messages[claim.id], claim.state
        assert (claim.body, claim.priority) == (job.body, job.priority)
        assert (state.failures, state.crashes, state.releases) == (job.failures, job.crashes, job.releases)
        self._compare_time(claim.expires_us, job.expires)

    def _compare_time(self, stored_us: int, expected: int | None) -> None:
        if expected is None:
            assert stored_us == 0
        else:
            assert abs(stored_us - self._start_us - microseconds(expected)) < TOLERANCE_US
