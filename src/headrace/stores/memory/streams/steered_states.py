"""What users change in the messages of a stream. The caller holds the lock."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import EXPIRED_TTL_US, FRESH, Message
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.answers import CancelAnswer, ReplayAnswer
from headrace.core.records.control import CancelNotice, PauseNotice
from headrace.core.records.record import JobStatus

from .entry import Entry
from .message_states import MessageStates

# Read once: access to a member of an enumeration is slower than to a global name.
_RUNNING, _SCHEDULED = JobStatus.RUNNING, JobStatus.SCHEDULED
_RETRYING, _DEAD = JobStatus.RETRYING, JobStatus.DEAD


class SteeredStates(MessageStates):
    def pause(self, *, paused: bool) -> None:
        self.paused = paused
        self._announce(PauseNotice(self.stream, paused))
        self._wake_waiters()

    def cancel(self, id: str, ttl_us: int, now_us: int) -> CancelAnswer:
        entry = self.entries.get(id)
        if entry is None or entry.status is _DEAD or entry.expired(now_us):
            return CancelAnswer.GONE
        if entry.status is _RUNNING:
            entry.cancelled_for_us = ttl_us
            self._announce(CancelNotice(self.stream, id))
            return CancelAnswer.REQUESTED
        self._take_out(entry, now_us)
        self._end(entry, JobStatus.CANCELLED, ttl_us, now_us)
        return CancelAnswer.REMOVED

    def purge(self, ttl_us: int, limit: int, end_records: int, now_us: int) -> int:
        entries: list[Entry] = []
        while len(entries) < limit and (parked := self.parking.first()):
            self._take_out(parked, now_us)
            entries.append(parked)
        entries += self.lanes.take_any(limit - len(entries), now_us)
        while len(entries) < limit and self.due_messages.first_us() is not None:
            entries.append(self.due_messages.pop())
        for entry in entries:
            self._end_waiting(entry, ttl_us, end_records, now_us)
        return len(entries)

    def replay(self, id: str, now_us: int) -> ReplayAnswer:
        entry = self.dead.get(id)
        if entry is None:
            return ReplayAnswer.GONE
        unique = entry.message.unique
        if unique and unique.until == "finished":
            if self.owner(unique.key, now_us):
                return ReplayAnswer.DUPLICATE
            self._take_key(msgspec.structs.replace(entry.message, expired_ttl_us=EXPIRED_TTL_US), now_us)
        del self.dead[id]
        # A replayed message must run: neither an old cancellation nor its age prevents that.
        entry.state, entry.cancelled_for_us, entry.expires_us = FRESH, None, 0
        entry.reason = entry.failure = None
        self._enter(entry, now_us)
        return ReplayAnswer.REPLAYED

    def bury(self, message: Message, reason: DeadReason, failure: Failure, now_us: int) -> None:
        """Add a message that was never queued to the dead letters."""
        self.established = True
        if message.id not in self.entries and not self.end_records.get(message.id, now_us):
            entry = self.entries[message.id] = Entry(message, next(self._numbers), _DEAD, now_us)
            self._bury(entry, FRESH, reason, failure, now_us)

    def discard(self, id: str) -> bool:
        if self.dead.pop(id, None) is None:
            return False
        del self.entries[id]
        return True

    def clean(self, id: str, status: JobStatus, ttl_us: int, now_us: int) -> bool:
        """Remove a message if it is in this state."""
        if status is _DEAD:
            return self.discard(id)
        if status.over:
            return self.end_records.forget(id, status, now_us)
        entry = self.entries.get(id)
        if entry is None or entry.status is not status:
            return False
        if status is _RUNNING:
            del self.running[entry.token]
            self._release(entry, now_us)
        else:
            self._take_out(entry, now_us)
        self._end(entry, JobStatus.EXPIRED if entry.expired(now_us) else JobStatus.CANCELLED, ttl_us, now_us)
        return True

    def run_now(self, id: str, now_us: int) -> bool:
        entry = self.entries.get(id)
        if entry is None or entry.status not in (_SCHEDULED, _RETRYING):
            return False
        self._take_out(entry, now_us)
        self._queue(entry, now_us)
        return True

    def rewrite(self, id: str, body: bytes) -> bool:
        entry = self.entries.get(id)
        if entry is None or entry.status not in (_SCHEDULED, _RETRYING, _DEAD):
            return False
        entry.message = msgspec.structs.replace(entry.message, body=body)
        return True
