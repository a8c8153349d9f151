"""A store and the model beside each other: what is done to both, and the comparison of what is left."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine
from itertools import count
from typing import Any, Final, TypeVar

import pytest
from hypothesis import Phase, settings

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Batch
from headrace.core.records.answers import DeadFilter
from headrace.core.records.record import JobStatus, Record
from headrace.core.runtime.clock import SECOND, MovableClock, microseconds
from headrace.testing.contract.kit.stand import LEASE, Stand
from headrace.testing.contract.kit.tidy import check_that_nothing_is_left
from headrace.testing.contract.under_test import StoreUnderTest

from .model import Model, ModelJob

T = TypeVar("T")

#: How much a test of a machine tries. In `make test` it is a few examples, which are not made smaller when
#: one fails, since that takes minutes. In `make test-more` it is what the profile says.
lengths = pytest.mark.parametrize(
    "examples",
    [
        pytest.param(settings(max_examples=30, phases=[Phase.generate], deadline=None), id="few"),
        pytest.param(settings(deadline=None), id="many", marks=pytest.mark.more),
    ],
)

#: Few, so that they meet again.
IDS: Final = ("ada", "bob", "cleo", "dan", "eve")

#: The model counts whole seconds and a run takes a few: times that differ by less are the same.
TOLERANCE_US: Final = 10 * SECOND

#: Seconds after which an example on a server is cut short.
LONGEST: Final = 7.0

#: A claim and the number that the model knows it by.
HandOut = tuple[int, Claim]


class SlowClock(MovableClock):
    """Goes on by a microsecond at each reading. So a store that goes by this clock agrees with the model,
    however long a run takes."""

    def __init__(self) -> None:
        super().__init__()
        self._started_us = super().now_us()
        self._readings = count(1)

    def now_us(self) -> int:
        return self._started_us + self.elapsed_us()

    def elapsed_us(self) -> int:
        return self.offset_us + next(self._readings)


def clock_for(store: StoreUnderTest) -> MovableClock:
    """A server has a clock of its own, and a store compares that with ours."""
    return MovableClock() if store.server_clock else SlowClock()


def time_limit(clock: MovableClock) -> float:
    """When an example must be at its end. On a server real time counts, and the model tolerates little."""
    return math.inf if isinstance(clock, SlowClock) else time.monotonic() + LONGEST


class Pair:
    """`backends` are two processes that use the store."""

    def __init__(self, store: StoreUnderTest, clock: MovableClock) -> None:
        self._loop = asyncio.Runner()
        self._numbers = count(1)
        self._start_us = clock.now_us()
        self.model = Model(lease=round(LEASE))
        self.stand = Stand(store, clock)
        self.last_batches: dict[int, Batch] = {}
        self.hand_outs: list[HandOut] = []  # the latest last
        self.run(self.stand.open())
        self.backends = [self.stand.backend, self.run(self.stand.other())]

    def close(self) -> None:
        try:
            self.run(check_that_nothing_is_left(self.stand))
            self.run(self.stand.close())
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    def next_number(self) -> int:
        return next(self._numbers)

    def held(self) -> list[HandOut]:
        return [each for each in self.hand_outs if self.model.holds(each[1].id, each[0])]

    def lost(self) -> list[HandOut]:
        """Claims that no longer hold their message; the latest, which are the more interesting ones."""
        return [each for each in self.hand_outs if not self.model.holds(each[1].id, each[0])][-4:]

    # --- comparison --------------------------------------------------------------------------------------

    def compare_counts(self) -> None:
        counts = self.run(self.backends[1].counts(self.stand.stream))
        model = self.model
        assert counts.queued == model.count(JobStatus.QUEUED)
        assert counts.running == model.count(JobStatus.RUNNING)
        assert counts.scheduled == model.count(JobStatus.SCHEDULED)
        assert counts.retrying == model.count(JobStatus.RETRYING)
        assert counts.dead == model.count(JobStatus.DEAD)
        assert counts.due == len(model.due())
        assert counts.paused == model.paused
        assert bool(counts.oldest_us) == bool(counts.queued)

    def compare_records(self) -> None:
        for id in IDS:
            record = self.run(self.backends[0].get(self.stand.stream, id))
            assert (record.status if record else JobStatus.UNKNOWN) is self.model.status(id)
            if record is not None and id in self.model.jobs:
                self._compare_living(record, self.model.jobs[id])
            elif record is not None and (mark := self.model.mark(id)):
                assert record.result == mark.result

    def _compare_living(self, record: Record, job: ModelJob) -> None:
        state = record.state
        assert (record.body, record.priority, record.task) == (job.body, job.priority, "greet")
        assert (state.failures, state.crashes, state.releases) == (job.failures, job.crashes, job.releases)
        assert record.worker == (job.worker if job.status is JobStatus.RUNNING else "")
        if job.waits_for_its_time and not job.expired(self.model.now):
            self._compare_time(record.due_us, job.due)

    def compare_dead_letters(self) -> None:
        page = self.run(self.backends[1].dead_letters(self.stand.stream, only=DeadFilter()))
        assert [letter.id for letter in page] == self.model.dead[::-1]

    def compare_claim(self, claim: Claim) -> None:
        job, state = self.model.jobs[claim.id], claim.state
        assert (claim.body, claim.priority) == (job.body, job.priority)
        assert (state.failures, state.crashes, state.releases) == (job.failures, job.crashes, job.releases)
        self._compare_time(claim.expires_us, job.expires)

    def _compare_time(self, stored_us: int, expected: int | None) -> None:
        if expected is None:
            assert stored_us == 0
        else:
            assert abs(stored_us - self._start_us - microseconds(expected)) < TOLERANCE_US
