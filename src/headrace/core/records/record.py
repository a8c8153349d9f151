"""What a store answers about messages, queues and workers, for status, listings and pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.job_log import NO_LOG, JobLog
from headrace.core.messages.message import FRESH, NORMAL, State, Stream, decode_envelope
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.runtime.clock import SECOND, datetime_of
from headrace.core.values.bounds import Count, MomentUs

T = TypeVar("T")


class JobStatus(StrEnum):
    """Where a job is.

    - `scheduled`: it has a delay, and has not run yet
    - `queued`: it could run now
    - `running`: a worker holds it
    - `retrying`: it waits for a retry, or was put off by `Snooze`
    - `succeeded`: its function returned, and the result is kept
    - `dead`: it is in the dead letters
    - `cancelled`: it was cancelled or purged
    - `expired`: it waited longer than it was allowed to
    - `unknown`: it never existed, or it is over and nothing of it was kept. A success without a kept result
      leaves nothing
    """

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"

    @property
    def over(self) -> bool:
        """Whether the job has ended: it does not run again by itself."""
        return self in _OVER


_OVER = frozenset(
    {JobStatus.SUCCEEDED, JobStatus.DEAD, JobStatus.CANCELLED, JobStatus.EXPIRED, JobStatus.UNKNOWN}
)


class Progress(msgspec.Struct, frozen=True):
    """How far a running message has come, by the last report of its handler."""

    fraction: float
    text: str
    at_us: int


#: What a queued message waits for when an earlier one of its key is not over. No limit can be called so.
ORDER_KEY: Final = "order key"


class Record(msgspec.Struct, frozen=True):
    """All that a store knows of one message. Times are microseconds on its clock; 0: not (yet)."""

    stream: Stream
    id: str
    status: JobStatus
    task: str = ""
    body: bytes | None = None
    state: State = FRESH
    priority: int = NORMAL
    due_us: int = 0
    claimed_us: int = 0
    worker: str = ""
    ended_us: int = 0
    result: bytes | None = None
    note: str = ""
    reason: DeadReason | None = None
    failure: Failure | None = None
    progress: Progress | None = None
    log: JobLog = NO_LOG  # of the current run; the log of earlier runs is in the state
    unique_key: str = ""  # of a message that waits, runs or is dead in a queue: the key it was appended with
    waiting_for: str = ""  # of a queued message: the limit that it waits for, or `ORDER_KEY`
    started_us: int = 0  # of a message that is over: when its last run began, by the history
    takes_key: bool = False  # whether a replay takes that key again: the key is of kind `finished`


class Counts(msgspec.Struct, frozen=True):
    """How many messages of a stream are in each state. `due`: how many of the scheduled are due already."""

    queued: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    due: int = 0
    oldest_us: int = 0  # when the longest-waiting queued message became ready
    paused: bool = False


#: Seconds without a poll after which a worker with free slots counts as quiet, for the doctor, the dashboard
#: and `/healthz`.
QUIET_SECONDS = 30.0


class RunningJob(msgspec.Struct, frozen=True, array_like=True):
    """A job that a worker runs, and since when."""

    id: str
    task: str
    since_us: MomentUs


#: How long a worker is remembered after a heartbeat, in microseconds.
WORKER_TTL_US: Final = 60 * SECOND


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker as its heartbeat describes it.

    - `consumer`: its id
    - `host`: the name of its machine
    - `pid`: the id of its process
    - `started_us`: when it started, in microseconds since 1970
    - `queues`: the queues that it serves
    - `concurrency`: how many jobs and events it runs at a time
    - `polled_us`: its last successful claim, in microseconds since 1970
    - `running`: the jobs that it runs now: `id`, `task` and the time of their start
    - `groups`: the groups that it serves: `orders/billing`
    - `timings`: the timings of the declared schedules that it fires
    - `relays`: the outboxes that it relays
    """

    consumer: str
    host: str
    pid: int
    started_us: MomentUs
    queues: tuple[str, ...]
    concurrency: Count
    polled_us: MomentUs = 0  # the last successful claim
    running: tuple[RunningJob, ...] = ()
    groups: tuple[str, ...] = ()  # streams of groups that it serves: `orders/billing`
    timings: tuple[str, ...] = ()  # the timings of the declared schedules that it fires: see `ScheduleRecord`
    relays: tuple[str, ...] = ()  # the outboxes that it relays

    @property
    def streams(self) -> list[Stream]:
        """All streams that it claims from."""
        queues: list[Stream] = [Stream("queue", name) for name in self.queues]
        return queues + [Stream("group", name) for name in self.groups]

    def seconds_since_poll(self, now: datetime) -> float:
        """Seconds since its last poll, or since its start. `now` is on this machine's clock."""
        last = moment(self.polled_us or self.started_us)
        return 0.0 if last is None else (now - last).total_seconds()

    def is_quiet(self, now: datetime) -> bool:
        """Whether it has free slots and has not polled lately. A relay does not poll: it serves no queue."""
        has_room = len(self.running) < self.concurrency and bool(self.queues or self.groups)
        return has_room and self.seconds_since_poll(now) > QUIET_SECONDS


class DeadLetter(msgspec.Struct, frozen=True):
    """A job or an event that does not run again by itself, with its bytes and the reason.

    - `id`: the id of the job or event
    - `task`: the name of its task; of an event its kind
    - `reason`: why it died, a `DeadReason`: `exhausted`, `unrecoverable`, `crashed`, `invalid` …
    - `error`: the text of its last error
    - `traceback`: the traceback of its last error
    - `attempts`: runs that failed or crashed
    - `died_at`: when it died
    - `payload`: its arguments as bytes, as they are stored
    - `error_type`: the class of its last error
    - `queue`: the queue of a job
    - `topic`: the topic of an event
    - `group`: the group in which the event died
    """

    id: str
    task: str
    reason: str
    error: str
    traceback: str
    attempts: int
    died_at: datetime
    payload: bytes
    error_type: str = ""
    queue: str | None = None
    topic: str | None = None
    group: str | None = None

    def __repr__(self) -> str:
        # Without the payload, which may hold secrets.
        return f"<DeadLetter {self.id} of {self.task}, {self.reason}: {self.error_type} {self.error}>"


def opened_letter(letter: DeadLetter) -> DeadLetter:
    """A dead letter as users see it. Stores keep whole messages; users see the payload: the arguments of a
    job, or the payload of an event. Bytes that are no message stay as they are."""
    try:
        payload = decode_envelope(letter.payload).payload
    except DECODE_ERRORS:
        return letter
    return msgspec.structs.replace(letter, payload=payload)


def dead_letter_of(record: Record, *, reason: str = "") -> DeadLetter:
    """The dead letter of a dead message. `reason`: its reason in words, if only a newer version knows it."""
    failure, stream = record.failure or Failure("", ""), record.stream
    return DeadLetter(
        id=record.id,
        task=record.task,
        reason=record.reason or reason,
        error=failure.error,
        traceback=failure.traceback,
        attempts=record.state.failures + record.state.crashes,
        died_at=datetime_of(record.ended_us),
        payload=record.body or b"",
        error_type=failure.error_type,
        queue=stream.name if stream.kind == "queue" else None,
        topic=stream.topic if stream.kind == "group" else None,
        group=stream.group if stream.kind == "group" else None,
    )


class Page(list[T]):
    """A part of a listing: a list of its items.

    - `cursor`: asks for the next part; None: there is none
    """

    def __init__(self, items: Iterable[T] = (), cursor: str | None = None) -> None:
        super().__init__(items)
        self.cursor = cursor

    @property
    def items(self) -> tuple[T, ...]:
        """The items of this part."""
        return tuple(self)


def moment(us: int) -> datetime | None:
    """A stored time as an aware datetime; None for 0."""
    return datetime_of(us) if us else None
