"""How the store holds a message until its end."""

from __future__ import annotations

import msgspec

from headrace.core.messages.job_log import NO_LOG, JobLog
from headrace.core.messages.message import FRESH, Message, State
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.record import JobStatus, Progress


class Entry(msgspec.Struct, gc=False):
    """A message that waits, runs or is dead. Nothing it refers to leads back to it, hence `gc=False`.

    `number` and every token come from one counter of the store: a token above the number belongs to a claim
    of this entry, one below it to an earlier message of the same id.
    """

    message: Message
    number: int
    status: JobStatus
    since_us: int  # when it got into this state
    expires_us: int = 0
    state: State = FRESH
    due_us: int = 0
    token: int = 0
    worker: str = ""
    leased_us: int = 0  # when the lease began or was last renewed
    cancelled_for_us: int | None = None  # cancellation was requested, with an end record for this time
    reason: DeadReason | None = None
    failure: Failure | None = None
    died: int = 0  # the order of deaths
    progress: Progress | None = None  # of the last claim
    log: JobLog = NO_LOG  # what that claim's run has reported
    lane: int = 0  # of a queued message with constraints
    written_us: int = 0  # for an event: when it was written to its topic's log

    def expired(self, now_us: int) -> bool:
        """Whether it has expired while it waits."""
        return (
            0 < self.expires_us <= now_us
            and self.status not in (JobStatus.RUNNING, JobStatus.DEAD)
            and self.state.expired(self.expires_us, now_us)
        )
