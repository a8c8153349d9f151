"""What a store should do with limits, tenants and ordered jobs, written from the contract's prose alone.

It does not say which message a claim brings: that depends on how lines were opened. It says which messages a
claim may bring, and which it must bring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.rate import Rate
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.outcome import Outcome, Released, Retry, Snoozed
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import microseconds
from headrace.testing.contract.machines.jobs.model import SUSPECT, JobModel, ModelJob
from headrace.testing.contract.machines.model import ModelClock

#: Of a tenant that could be served all the time, each other one is served at most so often before it.
MOST_TURNS = 2

#: A lane and a tenant.
Turn = tuple[str, str]


@dataclass
class ModelTokens:
    """The next moment of a rate, which the model knows only roughly: the clock of a store is ahead by up to
    `drift_us`. The moment is between `earliest_us` and `latest_us`."""

    drift_us: int
    earliest_us: int = 0
    latest_us: int = 0

    def spend(self, rate: Rate, now_us: int, tokens: int) -> None:
        self._bound(rate, now_us)
        self.earliest_us = rate.spent(self.earliest_us, now_us, tokens)
        self.latest_us = rate.spent(self.latest_us, now_us + self.drift_us, tokens)

    def may_start(self, rate: Rate, now_us: int) -> bool:
        return rate.allowed(self.earliest_us, now_us + self.drift_us) > 0

    def must_start(self, rate: Rate, now_us: int) -> bool:
        self._bound(rate, now_us)
        return rate.allowed(self.latest_us, now_us) > 0

    def change(self) -> None:
        """The figures are others: what was spent may be forgotten, or not."""
        self.earliest_us = 0

    def _bound(self, rate: Rate, now_us: int) -> None:
        self.latest_us = rate.bounded(self.latest_us, now_us + self.drift_us)


class LimitModel(JobModel):
    def __init__(self, clock: ModelClock) -> None:
        super().__init__(clock)
        self.drift_us = 0
        self.declared: dict[str, LimitFigures] = {}
        self.overrides: dict[str, LimitFigures] = {}
        self._tokens: dict[LimitKey, ModelTokens] = {}
        self._holders: dict[str, str] = {}  # the message that holds each key
        self._parked: dict[str, list[str]] = {}
        self._turns_of_others: dict[Turn, Counter[str]] = {}

    # --- figures -----------------------------------------------------------------------------------------

    def figures(self, name: str) -> LimitFigures:
        return self.overrides.get(name) or self.declared.get(name) or LimitFigures(name)

    def declare(self, figures: LimitFigures) -> list[LimitFigures]:
        before = self.declared.get(figures.name, figures)
        self.declared[figures.name] = figures
        self._changed(figures.name)
        return [before] if before != figures else []

    def set_limit(self, name: str, figures: LimitFigures | None) -> bool:
        if figures is None:
            self.overrides.pop(name, None)
        elif name in self.declared:
            self.overrides[name] = figures
        self._changed(name)
        return name in self.declared

    def _changed(self, name: str) -> None:
        for key, tokens in self._tokens.items():
            if key.limit == name:
                tokens.change()

    # --- what a test may ask -----------------------------------------------------------------------------

    def using(self, name: str, status: JobStatus) -> list[LimitKey]:
        """For each message that runs, or waits in a line, its key of a limit."""
        jobs = [job for job in self.messages.values() if job.status is status and not job.parked]
        return [key for job in jobs for key in limits_of(job.constraints) if key.limit == name]

    def may_start(self, id: str) -> bool:
        job = self.messages[id]
        return self._is_ready(job) and all(self._may_take(key) for key in limits_of(job.constraints))

    def is_first(self, id: str, taken: Collection[str]) -> bool:
        """Whether it is the first of its line, but for those that a claim took with it."""
        job = self.messages[id]
        line = [each for each in self.messages.values() if self._is_ready(each) and self._share(each, job)]
        return all(each.place >= job.place or each.id in taken for each in line)

    def must_start(self, *, suspects: bool, rates: bool) -> list[str]:
        """What a claim must bring, if it asks for enough. Without `rates`: no message that has a rate, as
        `promote` looks for its tokens."""
        return [
            job.id
            for job in self.messages.values()
            if self._is_ready(job)
            and (suspects or job.place[0] != SUSPECT)
            and all(self._must_take(key, rates=rates) for key in limits_of(job.constraints))
        ]

    def _is_ready(self, job: ModelJob) -> bool:
        return job.status is JobStatus.QUEUED and not job.parked and not self.paused

    def _share(self, one: ModelJob, other: ModelJob) -> bool:
        """Whether two wait in the same line. Ordered jobs may be apart from plain ones."""
        return (one.place[0], one.constraints, not one.key) == (
            other.place[0],
            other.constraints,
            not other.key,
        )

    def _may_take(self, key: LimitKey) -> bool:
        rate = self.figures(key.limit).rate
        return self._has_slot(key) and (rate is None or self._of(key).may_start(rate, self._now_us))

    def _must_take(self, key: LimitKey, *, rates: bool) -> bool:
        rate = self.figures(key.limit).rate
        return self._has_slot(key) and (
            rate is None or (rates and self._of(key).must_start(rate, self._now_us))
        )

    def _has_slot(self, key: LimitKey) -> bool:
        most = self.figures(key.limit).max_running
        return most is None or self.using(key.limit, JobStatus.RUNNING).count(key) < most

    def _of(self, key: LimitKey) -> ModelTokens:
        return self._tokens.setdefault(key, ModelTokens(self.drift_us))

    @property
    def _now_us(self) -> int:
        return microseconds(self.now)

    # --- turns of tenants --------------------------------------------------------------------------------

    def served(self, turns: Iterable[Turn], could: set[Turn]) -> bool:
        """Note the turns of a claim. `could`: the turns that could be served before and after it. False: one
        of them was passed over."""
        taken = Counter(turns)
        counts = {turn: self._turns_of_others.get(turn, Counter()) for turn in could}
        for turn, others in counts.items():
            if taken[turn]:
                others.clear()
            others.update({each[1]: most for each, most in taken.items() if each[0] == turn[0]})
            others[turn[1]] = 0
        self._turns_of_others = counts
        return all(
            most <= MOST_TURNS + taken[turn] for turn, others in counts.items() for most in others.values()
        )

    def free_turns(self) -> set[Turn]:
        """The lanes and tenants that have a message which waits for no limit."""
        return {
            (job.place[0], job.constraints.tenant)
            for job in self.messages.values()
            if self._is_ready(job) and job.constraints and not job.constraints.limits
        }

    # --- moves -------------------------------------------------------------------------------------------

    def hand_out(self, id: str, number: int, worker: str) -> None:
        super().hand_out(id, number, worker)
        self._spend(self.messages[id], 1)

    def apply(self, message: ModelJob, outcome: Outcome) -> None:
        if isinstance(outcome, Released) and outcome.unstarted:
            self._spend(message, -1)
        super().apply(message, outcome)

    def _run_again(self, job: ModelJob, outcome: Retry | Snoozed | Released) -> None:
        if isinstance(outcome, Released) and outcome.constraints and job.cancelled_for is None:
            state = outcome.state
            job.failures, job.crashes, job.releases = state.failures, state.crashes, state.releases
            job.holder, job.constraints = None, outcome.constraints
            self._queue(job)
        else:
            super()._run_again(job, outcome)

    def _spend(self, job: ModelJob, tokens: int) -> None:
        for key in limits_of(job.constraints):
            if rate := self.figures(key.limit).rate:
                self._of(key).spend(rate, self._now_us, tokens)

    # --- order -------------------------------------------------------------------------------------------

    def _queue(self, job: ModelJob, *, returned: bool = False, with_the_last: bool = False) -> None:
        super()._queue(job, returned=returned, with_the_last=with_the_last)
        if job.key and self._holders.setdefault(job.key, job.id) != job.id:
            job.parked = True
            self._parked.setdefault(job.key, []).append(job.id)

    def _parted(self, job: ModelJob) -> None:
        parked = self._parked.get(job.key, [])
        if job.parked:
            parked.remove(job.id)
            job.parked = False
        elif self._holders.get(job.key) == job.id:
            del self._holders[job.key]
            if parked:
                following = self.messages[parked.pop(0)]
                following.parked = False
                self._queue(following)


def limits_of(constraints: Constraints | None) -> tuple[LimitKey, ...]:
    return constraints.limits if constraints else ()
