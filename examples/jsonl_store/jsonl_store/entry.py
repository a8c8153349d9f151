"""A message as the state holds it, while it lives and after its end."""

from __future__ import annotations

import msgspec

from headrace.store import (
    FRESH,
    NO_LOG,
    Answer,
    DeadReason,
    Failure,
    JobLog,
    JobStatus,
    Message,
    Progress,
    State,
)


class Entry(msgspec.Struct, eq=False):
    """A message that waits, runs or is dead.

    `number` and every token come from one counter: a token above the number was handed out for this entry,
    one below it for an earlier message of the same id.
    """

    message: Message
    number: int
    status: JobStatus
    since_us: int  # when it got into this state
    expires_us: int = 0
    state: State = FRESH
    lane: int = 0  # while it is queued
    due_us: int = 0  # while it waits for its time
    turn: int = 0  # orders those that are due at the same time
    token: int = 0  # of the last hand-out
    worker: str = ""
    leased_us: int = 0  # when the lease began or was last renewed
    cancelled_for_us: int | None = None  # cancellation was asked for, with an end record for that long
    reason: DeadReason | None = None
    failure: Failure | None = None
    died: int = 0  # orders the deaths
    progress: Progress | None = None
    log: JobLog = NO_LOG
    written_us: int = 0  # of an event: when it was written to its topic's log

    @property
    def id(self) -> str:
        return self.message.id

    def expired(self, now_us: int) -> bool:
        """Whether it still waits although its time has passed."""
        waits = self.status not in (JobStatus.RUNNING, JobStatus.DEAD)
        return waits and self.state.expired(self.expires_us, now_us)


class EndRecord(msgspec.Struct, frozen=True):
    """What is kept of a message after its end."""

    id: str
    task: str
    number: int
    status: JobStatus
    ended_us: int
    until_us: int
    result: bytes | None
    note: str
    state: State


class KeyHolder(msgspec.Struct, frozen=True):
    """Which message holds a unique key, and until when."""

    id: str
    until_us: int


class LastBatch(msgspec.Struct, frozen=True):
    """The last batch of a producer, so that a repeat gets the same answers."""

    number: int
    answers: list[Answer]
    until_us: int
