"""What a store should do with one queue, written from the contract's prose alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import EXPIRED_TTL_US, Batch, Message, UniqueKey
from headrace.core.messages.outcome import (
    Cancelled,
    Dead,
    Done,
    Expired,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from headrace.core.records.answers import Answer, CancelAnswer, ReplayAnswer
from headrace.core.records.record import JobStatus
from headrace.core.runtime.clock import SECOND
from headrace.core.store import CRASH_LIMIT
from headrace.testing.contract.machines.model import ModelClock, ModelMessage, StreamModel

#: Few, so that they meet again.
IDS: Final = ("ada", "bob", "cleo", "dan", "eve")

SUSPECT, RETURNED = "suspect", "returned"
PRIORITY_LANES = ("high", "normal", "low")

#: Where a queued message stands: its lane, and the moment when it became ready. Several may share a place.
LanePlace = tuple[str, int]

#: Seconds that a producer's last batch is remembered at least.
PRODUCER_MEMORY = 600


@dataclass
class ModelJob(ModelMessage):
    id: str
    body: bytes
    priority: int
    unique: UniqueKey | None
    expires: int | None
    status: JobStatus = JobStatus.QUEUED
    failures: int = 0
    releases: int = 0
    due: int = 0
    turn: int = 0  # the order in which messages got their due time
    place: LanePlace = ("", 0)
    key: str = ""
    constraints: Constraints | None = None
    parked: bool = False  # an earlier one holds its key

    @property
    def waits_for_its_time(self) -> bool:
        return self.status in (JobStatus.SCHEDULED, JobStatus.RETRYING)

    def expired(self, now: int) -> bool:
        """Whether it still waits after its expiry time, and no handler has begun with it."""
        waits = self.status is JobStatus.QUEUED or self.waits_for_its_time
        late = self.expires is not None and self.expires <= now
        return waits and late and not (self.failures or self.crashes)


@dataclass
class ModelEndRecord:
    status: JobStatus
    until: int
    result: bytes | None = None


class JobModel(StreamModel[ModelJob]):
    def __init__(self, clock: ModelClock) -> None:
        super().__init__(clock)
        self.paused = False
        self.dead: list[str] = []  # the latest last
        self._end_records: dict[str, ModelEndRecord] = {}
        self._keys: dict[str, tuple[str, int | None]] = {}
        self._batches: dict[str, tuple[int, list[Answer], int]] = {}
        self._turns = 0
        self._moments = 0

    # --- what a test may ask -----------------------------------------------------------------------------

    def dead_ids(self) -> list[str]:
        return self.dead

    def end_record(self, id: str) -> ModelEndRecord | None:
        end = self._end_records.get(id)
        return end if end and end.until > self.now else None

    def status(self, id: str) -> JobStatus:
        if id in self.messages:
            return JobStatus.EXPIRED if self.messages[id].expired(self.now) else self.messages[id].status
        end = self.end_record(id)
        return end.status if end else JobStatus.UNKNOWN

    def count(self, status: JobStatus) -> int:
        return sum(job.status is status for job in self.messages.values())

    def due(self) -> list[ModelJob]:
        """What should run already, in the order in which it should."""
        due = [job for job in self.messages.values() if job.waits_for_its_time and job.due <= self.now]
        return sorted(due, key=lambda job: (job.due, job.turn))

    def next_due(self) -> int | None:
        """Seconds until anything is due."""
        return min(
            (max(job.due - self.now, 0) for job in self.messages.values() if job.waits_for_its_time),
            default=None,
        )

    def next_moment(self) -> None:
        self._moments += 1

    def remembers(self, batch: Batch) -> bool:
        number, _, until = self._batches.get(batch.producer, (0, [], 0))
        return number == batch.number and until > self.now

    # --- in ----------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> list[Answer]:
        if self.remembers(batch):
            return self._batches[batch.producer][1]
        answers = [self._append(message, batch.limit) for message in batch.messages]
        self._batches[batch.producer] = (batch.number, answers, self.now + PRODUCER_MEMORY)
        return answers

    def _append(self, message: Message, limit: int | None) -> Answer:
        if self.status(message.id) is not JobStatus.UNKNOWN:
            return Answer(message.id, "duplicate")
        replaced = self._replaceable(message)
        if message.unique and message.on_duplicate == "keep" and (owner := self._owner(message.unique)):
            return Answer(owner, "duplicate")
        expired = self._expired_owner(message.unique)
        waiting = self.count(JobStatus.QUEUED) + self.count(JobStatus.SCHEDULED)
        leaving = expired or replaced
        if leaving and leaving.status is not JobStatus.RETRYING:
            waiting -= 1
        if limit is not None and waiting >= limit:
            return Answer(message.id, "full")
        if expired:
            self._end(expired, JobStatus.EXPIRED, message.expired_ttl_us)
        if replaced:
            del self.messages[replaced.id]
            self._parted(replaced)
            if not message.fresh:
                until = self.now + message.expired_ttl_us // SECOND
                self._end_records[message.id] = ModelEndRecord(JobStatus.CANCELLED, until)
            self._add(msgspec.structs.replace(message, id=replaced.id))
            return Answer(replaced.id, "replaced")
        self._add(message)
        return Answer(message.id)

    def _replaceable(self, message: Message) -> ModelJob | None:
        """The job that waits and holds the key of a message that replaces."""
        if message.unique is None or message.on_duplicate != "replace":
            return None
        job = self.messages.get(self._owner(message.unique) or "")
        if job is None or job.unique is None or job.status in (JobStatus.RUNNING, JobStatus.DEAD):
            return None
        return job

    def _add(self, message: Message) -> None:
        delay, lifetime = message.delay_us // SECOND, message.lifetime_us // SECOND
        expires = self.now + delay + lifetime if lifetime else None
        job = ModelJob(message.id, message.body, message.priority, message.unique, expires)
        job.key, job.constraints = message.key, message.constraints
        self.messages[job.id] = job
        if job.unique:
            self._take_key(job.unique, job.id)
        self._wait_or_queue(job, JobStatus.SCHEDULED, delay)

    # --- out and back ------------------------------------------------------------------------------------

    def places(self, ids: list[str]) -> list[LanePlace]:
        return [self.messages[id].place for id in ids]

    def offers(self, limit: int, suspects: int) -> list[list[LanePlace]]:
        """The places that a claim may serve: from the top, or from the bottom when it is its turn."""
        if self.paused:
            return [[]]
        first = self._lane(SUSPECT)[: min(limit, suspects)] + self._lane(RETURNED)
        top_down = [place for name in PRIORITY_LANES for place in self._lane(name)]
        bottom_up = [place for name in reversed(PRIORITY_LANES) for place in self._lane(name)]
        return [(first + rest)[:limit] for rest in (top_down, bottom_up)]

    def _lane(self, name: str) -> list[LanePlace]:
        queued = [job.place for job in self.messages.values() if job.status is JobStatus.QUEUED]
        return sorted(place for place in queued if place[0] == name)

    def hand_out(self, id: str, number: int, worker: str) -> None:
        super().hand_out(id, number, worker)
        job = self.messages[id]
        job.status = JobStatus.RUNNING
        if job.unique and job.unique.until == "started":
            self._release_key(job)

    def can_succeed(self, message: ModelJob) -> bool:
        return message.status in (JobStatus.QUEUED, JobStatus.RUNNING)

    def apply(self, message: ModelJob, outcome: Outcome) -> None:
        match outcome:
            case Done(kept):
                result = (kept.ttl_us, kept.value) if kept else (0, None)
                self._end(message, JobStatus.SUCCEEDED, *result)
            case Dead(state):
                self._bury(message, state.failures, state.crashes, state.releases)
            case Cancelled(ttl_us):
                self._end(message, JobStatus.CANCELLED, ttl_us)
            case Expired(ttl_us):
                self._end(message, JobStatus.EXPIRED, ttl_us)
            case Retry() | Snoozed() | Released():
                self._run_again(message, outcome)

    def _run_again(self, job: ModelJob, outcome: Retry | Snoozed | Released) -> None:
        if job.cancelled_for is not None:
            self._end(job, JobStatus.CANCELLED, job.cancelled_for)
            return
        state = outcome.state
        job.failures, job.crashes, job.releases = state.failures, state.crashes, state.releases
        job.holder = None
        status = JobStatus.RETRYING if isinstance(outcome, Retry) else JobStatus.SCHEDULED
        returned = isinstance(outcome, Released)
        self._wait_or_queue(job, status, outcome.delay_us // SECOND, returned=returned)

    # --- upkeep ------------------------------------------------------------------------------------------

    def recover(self, id: str) -> tuple[int, JobStatus]:
        """Those that are recovered together are ready together."""
        job = self.messages[id]
        job.holder = None
        job.crashes += 1
        if job.cancelled_for is not None:
            self._end(job, JobStatus.CANCELLED, job.cancelled_for)
            return job.crashes, JobStatus.CANCELLED
        if job.crashes >= CRASH_LIMIT:
            self._bury(job, job.failures, job.crashes, job.releases)
        else:
            self._queue(job, returned=True, with_the_last=True)
        return job.crashes, job.status

    def promote(self, limit: int) -> int:
        due = self.due()[:limit]
        for job in due:
            self._queue(job)
        return len(due)

    # --- steering ----------------------------------------------------------------------------------------

    def cancel(self, id: str, ttl_us: int) -> CancelAnswer:
        job = self.messages.get(id)
        if job is None or job.status is JobStatus.DEAD or job.expired(self.now):
            return CancelAnswer.GONE
        if job.status is JobStatus.RUNNING:
            job.cancelled_for = ttl_us
            return CancelAnswer.REQUESTED
        self._end(job, JobStatus.CANCELLED, ttl_us)
        return CancelAnswer.REMOVED

    def purge(self, ttl_us: int) -> int:
        waiting = [
            job for job in self.messages.values() if job.status is JobStatus.QUEUED or job.waits_for_its_time
        ]
        for job in waiting:
            expired = job.expired(self.now)
            self._end(job, JobStatus.EXPIRED if expired else JobStatus.CANCELLED, ttl_us)
        return len(waiting)

    def replay(self, id: str) -> ReplayAnswer:
        if id not in self.dead:
            return ReplayAnswer.GONE
        job = self.messages[id]
        if job.unique and job.unique.until == "finished":
            if self._owner(job.unique):
                return ReplayAnswer.DUPLICATE
            if expired := self._expired_owner(job.unique):
                self._end(expired, JobStatus.EXPIRED, EXPIRED_TTL_US)
            self._take_key(job.unique, id)
        self.dead.remove(id)
        job.failures = job.crashes = job.releases = 0
        job.expires = job.cancelled_for = None
        self._queue(job)
        return ReplayAnswer.REPLAYED

    def discard(self, id: str) -> int:
        if id not in self.dead:
            return 0
        self.dead.remove(id)
        del self.messages[id]
        return 1

    def run_now(self, id: str) -> bool:
        job = self.messages.get(id)
        if job is None or not job.waits_for_its_time:
            return False
        self._queue(job)
        return True

    def rewrite(self, id: str, body: bytes) -> bool:
        job = self.messages.get(id)
        if job is None or not (job.waits_for_its_time or job.status is JobStatus.DEAD):
            return False
        job.body = body
        return True

    # --- moves -------------------------------------------------------------------------------------------

    def _wait_or_queue(self, job: ModelJob, status: JobStatus, delay: int, *, returned: bool = False) -> None:
        if delay <= 0:
            self._queue(job, returned=returned)
            return
        self._turns += 1
        job.status, job.due, job.turn = status, self.now + delay, self._turns

    def _queue(self, job: ModelJob, *, returned: bool = False, with_the_last: bool = False) -> None:
        job.status = JobStatus.QUEUED
        name = PRIORITY_LANES[job.priority]
        if job.crashes >= 2:
            name = SUSPECT
        elif returned:
            name = RETURNED
        self._moments += 0 if with_the_last else 1
        job.place = (name, self._moments)

    def _bury(self, job: ModelJob, failures: int, crashes: int, releases: int) -> None:
        job.failures, job.crashes, job.releases = failures, crashes, releases
        job.status, job.holder = JobStatus.DEAD, None
        self.dead.append(job.id)
        self._release_key(job)
        self._parted(job)

    def _end(self, job: ModelJob, status: JobStatus, ttl_us: int, result: bytes | None = None) -> None:
        self._release_key(job, expired=status is JobStatus.EXPIRED)
        del self.messages[job.id]
        self._end_records[job.id] = ModelEndRecord(status, self.now + ttl_us // SECOND, result)
        self._parted(job)

    def _parted(self, job: ModelJob) -> None:
        """A message has ended, or another one took its place."""

    # --- unique keys -------------------------------------------------------------------------------------

    def _owner(self, unique: UniqueKey) -> str | None:
        return None if self._expired_owner(unique) else self._holder(unique)

    def _expired_owner(self, unique: UniqueKey | None) -> ModelJob | None:
        job = self.messages.get(self._holder(unique) or "") if unique else None
        return job if job and job.unique and job.expired(self.now) else None

    def _holder(self, unique: UniqueKey) -> str | None:
        owner, until = self._keys.get(unique.key, (None, None))
        return owner if until is None or until > self.now else None

    def _take_key(self, unique: UniqueKey, id: str) -> None:
        elapsed = unique.until == "elapsed"
        self._keys[unique.key] = (id, self.now + unique.window_us // SECOND if elapsed else None)

    def _release_key(self, job: ModelJob, *, expired: bool = False) -> None:
        if job.unique is None or (job.unique.until == "elapsed" and not expired):
            return
        owner, until = self._keys.get(job.unique.key, (None, None))
        if owner == job.id and (until is None) == (job.unique.until != "elapsed"):
            del self._keys[job.unique.key]
