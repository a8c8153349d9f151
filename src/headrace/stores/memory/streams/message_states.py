"""Keeps the messages of a stream in every state, and moves them between states. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.messages.job_log import NO_LOG
from headrace.core.messages.message import State, Stream
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.core.records.record import JobStatus
from headrace.core.rules.lease import Lease
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.stores.memory.views import end_of
from headrace.stores.memory.waiter import Waiter, Watchers

from .due_times import DueMessages
from .end_records import EndRecord, EndRecords
from .entry import Entry
from .lanes import FIRST_PRIORITY, RETURNED, SUSPECT, Lanes
from .producers import Producers
from .unique_keys import UniqueKeys

# Read once: access to a member of an enumeration is slower than to a global name.
_QUEUED, _DEAD = JobStatus.QUEUED, JobStatus.DEAD


class MessageStates:
    def __init__(
        self, stream: Stream, announce: Callable[[ControlMessage], None], numbers: Iterator[int]
    ) -> None:
        self.stream = stream
        self.lease = Lease()
        self.established = False  # declared or appended to
        self.paused = False
        self.sealed = False  # nothing is appended any more
        #: Woken when something can be claimed.
        self.waiters: set[Waiter[None]] = set()
        self.watchers = Watchers()

        self.entries: dict[str, Entry] = {}  # waiting, running or dead; the oldest first
        self.lanes = Lanes()
        self.due_messages = DueMessages()
        self.running: dict[object, Entry] = {}  # by token; the longest since renewal first
        self.dead: dict[str, Entry] = {}  # the latest death last
        self.end_records = EndRecords()
        self.keys = UniqueKeys()
        self.schedules: dict[str, ScheduleRecord] = {}
        self._producers = Producers()
        self._purged = 0, 0  # how many end records purges left, and since when
        self._numbers = numbers
        self._announce = announce

    def find(self, id: str, now_us: int) -> Entry | EndRecord | None:
        return self.entries.get(id) or self.end_records.get(id, now_us)

    def owner(self, key: str, now_us: int) -> str | None:
        """The id of the message that holds a unique key and has not expired."""
        return None if self._expired_owner(key, now_us) else self.keys.owner(key, now_us)

    def _expired_owner(self, key: str, now_us: int) -> Entry | None:
        entry = self.entries.get(self.keys.owner(key, now_us) or "")
        unique = entry.message.unique if entry else None
        return entry if entry and unique and unique.key == key and entry.expired(now_us) else None

    def queued(self) -> int:
        return len(self.lanes)

    def oldest_us(self) -> int:
        """When the longest-waiting queued message became ready; 0: there is none."""
        return self.lanes.oldest_us()

    # --- moves -------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, now_us: int) -> None:
        """Queue an entry that did not wait or run before."""
        self._queue(entry, now_us)

    def _queue(self, entry: Entry, now_us: int, *, returned: bool = False) -> None:
        entry.status, entry.since_us = _QUEUED, now_us
        entry.due_us, entry.progress, entry.log = 0, None, NO_LOG
        if entry.state.suspect:
            lane = SUSPECT
        elif returned:
            lane = RETURNED
        else:
            lane = FIRST_PRIORITY + entry.message.priority
        self.lanes.put(lane, entry)
        self._wake_waiters()

    def _schedule(self, entry: Entry, status: JobStatus, due_us: int, now_us: int) -> None:
        entry.status = status
        entry.since_us = now_us
        entry.due_us = due_us
        if self.due_messages.put(entry):
            self._announce(DueNotice(self.stream))

    def _take_out(self, entry: Entry) -> None:
        """Remove a waiting entry from where it waits."""
        if entry.status is _QUEUED:
            self.lanes.forget(entry)
        else:
            self.due_messages.forget(entry)

    def _bury(self, entry: Entry, state: State, reason: DeadReason, failure: Failure, now_us: int) -> None:
        message = entry.message
        entry.status, entry.since_us = _DEAD, now_us
        entry.state, entry.reason, entry.failure = state, reason, failure
        entry.died = next(self._numbers)
        self.dead[message.id] = entry
        self._part(entry, now_us)

    def _end(
        self,
        entry: Entry,
        status: JobStatus,
        ttl_us: int,
        now_us: int,
        *,
        result: bytes | None = None,
        note: str = "",
    ) -> None:
        message = entry.message
        entry.status = status
        del self.entries[message.id]
        if ttl_us > 0:
            number, until_us = next(self._numbers), now_us + ttl_us
            end_record = EndRecord(
                message.id, message.task, number, status, now_us, until_us, result, note, entry.state
            )
            self.end_records.keep(end_record)
        self._part(entry, now_us)

    def _end_waiting(self, entry: Entry, ttl_us: int, end_records: int, now_us: int) -> None:
        """End a waiting entry that was taken out: as expired, or else as cancelled. It gets an end record
        while there are fewer than `end_records` of these, or when a caller waits for it."""
        status = JobStatus.EXPIRED if entry.expired(now_us) else JobStatus.CANCELLED
        left, since_us = self._purged
        if since_us + ttl_us <= now_us:
            left, since_us = 0, now_us
        kept = left < end_records or entry.message.id in self.watchers
        self._purged = left + kept, since_us
        self._end(entry, status, ttl_us if kept else 0, now_us)

    def _part(self, entry: Entry, now_us: int) -> None:
        """For every end: release the key, and notify the callers that wait for the message."""
        message = entry.message
        if message.unique:
            self.keys.release(message.unique, message.id, "finished", "started")
            if entry.status is JobStatus.EXPIRED:
                self.keys.release(message.unique, message.id, "elapsed")
        if self.watchers and (waiters := self.watchers.pop(message.id, None)):
            record = end_of(self, message.id, now_us)
            for waiter in waiters:
                waiter.wake(record)

    def _wake_waiters(self) -> None:
        if self.waiters and not self.paused:
            for waiter in self.waiters:
                waiter.wake(None)
            self.waiters.clear()
