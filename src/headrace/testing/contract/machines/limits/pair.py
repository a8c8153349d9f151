"""A queue with limits, tenants and ordered jobs beside its model."""

from __future__ import annotations

from typing import Final

from headrace.core.limits.figures import LimitFigures, LimitRecord
from headrace.core.limits.paused_tasks import pause_of
from headrace.core.limits.rate import Rate
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import Stream
from headrace.core.records.record import ORDER_KEY, JobStatus, Record
from headrace.core.runtime.clock import SECOND, MovableClock
from headrace.testing.contract.machines.jobs.model import SUSPECT, ModelJob
from headrace.testing.contract.machines.jobs.pair import TOLERANCE_US, JobPair
from headrace.testing.contract.machines.pair import HandOut
from headrace.testing.contract.under_test import StoreUnderTest

from .model import LimitModel, limits_of

#: What is declared at the start. `user` is used by key, `sms` and `user` together with others.
DECLARED: Final = (
    LimitFigures("stripe", max_running=1),
    LimitFigures("user", max_running=2),
    LimitFigures("sms", rate=Rate.parse("1/m", burst=2)),
    pause_of("greet", paused=False),
)

NONE: Final = Constraints()

#: More than a queue of the machine ever has.
ALL: Final = 100


class LimitPair(JobPair):
    model: LimitModel

    def __init__(self, store: StoreUnderTest, clock: MovableClock) -> None:
        super().__init__(store, clock, LimitModel)
        self.model.drift_us = TOLERANCE_US if store.server_clock else SECOND
        for figures in DECLARED:
            self.declare(figures)

    # --- steps that several actions take -----------------------------------------------------------------

    def declare(self, figures: LimitFigures, process: int = 0) -> None:
        changed = self.run(self.backends[process].declare_limits([figures]))
        assert changed == self.model.declare(figures)

    def set_limit(self, name: str, figures: LimitFigures | None, process: int) -> None:
        answer = self.run(self.backends[process].set_limit(name, figures))
        assert answer == self.model.set_limit(name, figures)

    def claim(self, stream: Stream, process: int, limit: int, suspects: int) -> list[HandOut]:
        """What a claim brings may start, and when it brings nothing there is nothing that must start."""
        handed = self._claim_once(stream, process, limit, suspects)
        if not handed:
            assert self.model.must_start(suspects=suspects > 0, rates=False) == []
        return handed

    def drain(self, stream: Stream, process: int) -> list[HandOut]:
        """Claim until nothing comes any more: then no message waits that has a slot and a token."""
        handed: list[HandOut] = []
        self.promote(process, ALL)
        while some := self.claim(stream, process, ALL, ALL):
            handed += some
        assert self.model.must_start(suspects=True, rates=True) == []
        return handed

    def _claim_once(self, stream: Stream, process: int, limit: int, suspects: int) -> list[HandOut]:
        worker, backend = f"worker-{process}", self.backends[process]
        before = self.model.free_turns()
        claims = self.run(backend.claim([stream], consumer=worker, limit=limit, suspects=suspects, wait=0))
        assert len(claims) <= limit
        jobs = [self.model.messages[claim.id] for claim in claims]
        assert sum(job.place[0] == SUSPECT for job in jobs) <= suspects
        turns = [(job.place[0], job.constraints.tenant) for job in jobs if job.constraints]
        handed = self._hand_out_each(stream, claims, worker)
        assert self.model.served(turns, before & self.model.free_turns())
        return handed

    def _hand_out_each(self, stream: Stream, claims: list[Claim], worker: str) -> list[HandOut]:
        handed: list[HandOut] = []
        taken = [claim.id for claim in claims]
        assert len(set(taken)) == len(taken)
        assert all(self.model.is_first(id, taken) for id in taken)
        for claim in claims:
            assert self.model.may_start(claim.id)
            # Of an ordered job without constraints, a store may say that it has some, which are empty.
            assert (claim.constraints or NONE) == (self.model.messages[claim.id].constraints or NONE)
            self._compare_claim(claim)
            handed += self.hand_out(stream, [claim], worker)
        return handed

    # --- comparison --------------------------------------------------------------------------------------

    def compare(self) -> None:
        super().compare()
        for record in self.run(self.backends[1].limits()):
            self._compare_limit(record)

    def _compare_limit(self, record: LimitRecord) -> None:
        name = record.figures.name
        running, waiting = (self.model.using(name, each) for each in (JobStatus.RUNNING, JobStatus.QUEUED))
        assert record.figures == self.model.figures(name)
        assert record.is_overridden == (name in self.model.overrides)
        assert (record.running, record.waiting) == (len(running), len(waiting))
        assert record.keys == len({key for key in running + waiting if key.key})

    def _compare_living(self, record: Record, job: ModelJob) -> None:
        super()._compare_living(record, job)
        if record.status is not JobStatus.QUEUED:
            assert record.waiting_for == ""
        elif job.parked:
            assert record.waiting_for == ORDER_KEY
        else:
            assert record.waiting_for in ("", *[key.limit for key in limits_of(job.constraints)])

    def _compare_next(self, next_in_us: int | None) -> None:
        """Tokens may come back sooner than the first message is due."""
        if (next_due := self.model.next_due()) is not None:
            assert next_in_us is not None
            assert next_in_us < (next_due + 1) * SECOND + TOLERANCE_US
