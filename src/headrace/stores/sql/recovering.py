"""Decides what becomes of a message whose lease has run out."""

from __future__ import annotations

from headrace.core.messages.job_log import decode_log
from headrace.core.messages.message import TrailEntry, readable_state
from headrace.core.messages.outcome import DeadReason
from headrace.core.records.answers import Recovery
from headrace.core.store import crash_failure

from .change_set import ChangedMessage, ChangeSet
from .lanes import CANCELLED, RETURNED, STATUS


def recover(
    changes: ChangeSet,
    subject: ChangedMessage,
    task: str,
    *,
    worker: str,
    state: bytes | None,
    log: bytes | None,
    crash_limit: int,
) -> Recovery | None:
    """Queue, bury or cancel the message; None: its state cannot be read. `state`, `log`: its columns."""
    before = readable_state(state)
    if before is None:
        changes.queue_unread(subject)
        return None
    crash = TrailEntry(changes.transaction.now_us, "crashed", worker)
    after = before.crashed(crash).logged(decode_log(log))
    if subject.cancel_us is not None:
        changes.end(subject, CANCELLED, ttl_us=subject.cancel_us)
    elif after.crashes >= crash_limit:
        changes.bury(subject, after, DeadReason.CRASHED, crash_failure(after.crashes))
    else:
        changes.queue(subject, after, place=None if after.suspect else RETURNED)
    return Recovery(subject.stream, subject.id, task, worker, after.crashes, STATUS[subject.place])
