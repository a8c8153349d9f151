"""Keeps the messages of a stream in every state, and moves them between states. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from headrace.core.messages.job_log import NO_LOG
from headrace.core.messages.message import Message, State, Stream
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.core.records.record import JobStatus
from headrace.core.rules.lease import Lease
from headrace.core.schedules.schedule_record import ScheduleRecord
from headrace.stores.memory.limits import LimitStates
from headrace.stores.memory.views import end_of
from headrace.stores.memory.waiter import Waiter, Watchers

from .due_times import DueMessages
from .end_records import EndRecord, EndRecords
from .entry import Entry
from .lanes import FIRST_PRIORITY, RETURNED, SUSPECT, Lanes
from .lines import Lines
from .parked_keys import ParkedKeys
from .producers import Producers
from .unique_keys import UniqueKeys

# Read once: access to a member of an enumeration is slower than to a global name.
_QUEUED, _DEAD, _SCHEDULED = JobStatus.QUEUED, JobStatus.DEAD, JobStatus.SCHEDULED


class MessageStates:
    def __init__(
        self,
        stream: Stream,
        announce: Callable[[ControlMessage], None],
        numbers: Iterator[int],
        limits: LimitStates,
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
        self.parking = ParkedKeys()
        self.lanes = self._new_lanes(limits, numbers)
        self.due_messages = DueMessages()
        self.running: dict[object, Entry] = {}  # by token; the longest since renewal first
        self.dead: dict[str, Entry] = {}  # the latest death last
        self.end_records = EndRecords()
        self.keys = UniqueKeys()
        self.schedules: dict[str, ScheduleRecord] = {}
        self._producers = Producers()
        self._purged = 0, 0  # how many end records purges left, and since when
        self._numbers = numbers
        self._limits = limits
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

    def _new_lanes(self, limits: LimitStates, numbers: Iterator[int]) -> Lanes:
        return Lanes(Lines(self.stream, limits, numbers, self._wake_waiters))

    def queued(self) -> int:
        return len(self.lanes) + len(self.parking)

    def oldest_us(self) -> int:
        """When the longest-waiting queued message became ready; 0: there is none."""
        times = self.lanes.oldest_us(), self.parking.oldest_us()
        return min((time for time in times if time), default=0)

    # --- moves -------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, now_us: int) -> None:
        """Queue an entry that did not wait or run before."""
        self._queue(entry, now_us)

    def _add(self, message: Message, now_us: int) -> None:
        entry = Entry(message, next(self._numbers), _QUEUED, now_us)
        self.entries[message.id] = entry
        due_us = max(message.due_us, now_us + message.delay_us)
        if message.lifetime_us:
            entry.expires_us = due_us + message.lifetime_us
        if due_us > now_us:
            self._schedule(entry, _SCHEDULED, due_us, now_us)
        elif not message.key or self._lets_in(entry):
            self.lanes.put(FIRST_PRIORITY + message.priority, entry)

    def _take_key(self, message: Message, now_us: int) -> bool:
        """Take the message's unique key. Ends an expired owner, and returns whether there was one."""
        unique = message.unique
        if unique is None:
            return False
        expired = self._expired_owner(unique.key, now_us)
        if expired is not None:
            self._take_out(expired, now_us)
            self._end(expired, JobStatus.EXPIRED, message.expired_ttl_us, now_us)
        self.keys.take(unique, message.id, now_us)
        return expired is not None

    def _replaceable(self, message: Message, now_us: int) -> Entry | None:
        """The entry that waits and holds the key of a message that replaces."""
        if message.on_duplicate != "replace":
            return None
        key = message.unique.key if message.unique else ""
        entry = self.entries.get(self.owner(key, now_us) or "")
        if entry is None or entry.status is JobStatus.RUNNING or entry.status is _DEAD:
            return None
        unique = entry.message.unique
        return entry if unique is not None and unique.key == key else None

    def _replace(self, replaced: Entry, message: Message, now_us: int) -> None:
        """Give a waiting entry everything of a message but its id."""
        id = replaced.message.id
        self._take_out(replaced, now_us)
        replaced.status = JobStatus.CANCELLED  # a lane may still have it, and must skip it
        if replaced.message.key:
            self._hand_on(replaced, now_us)
        del self.entries[id]
        self._take_key(msgspec.structs.replace(message, id=id), now_us)
        self._add(msgspec.structs.replace(message, id=id), now_us)
        if not message.fresh:
            self._note_absorbed(message, now_us)

    def _note_absorbed(self, message: Message, now_us: int) -> None:
        """Keep the id of a message that has replaced another one, so that a repeat is known."""
        until_us = now_us + message.expired_ttl_us
        number = next(self._numbers)
        self.end_records.keep(
            EndRecord(message.id, message.task, number, JobStatus.CANCELLED, now_us, until_us)
        )

    def _lets_in(self, entry: Entry) -> bool:
        """Whether an entry may be claimed; False: an earlier one holds its key, and it is parked."""
        # An event gets its key when it is drawn.
        return not entry.message.key or self.stream.kind != "queue" or self.parking.let_in(entry)

    def _queue(self, entry: Entry, now_us: int, *, returned: bool = False) -> None:
        entry.status, entry.since_us = _QUEUED, now_us
        entry.due_us, entry.progress, entry.log = 0, None, NO_LOG
        if not self._lets_in(entry):
            return
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

    def _take_out(self, entry: Entry, now_us: int) -> None:
        """Remove a waiting entry from where it waits."""
        if self.parking.take_out(entry):
            self._note_room(entry.message.key)
        elif entry.status is _QUEUED:
            self.lanes.forget(entry, now_us)
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
        if message.key:
            self._hand_on(entry, now_us)

    def _hand_on(self, entry: Entry, now_us: int) -> None:
        """Give the key of an entry that has ended to the next one."""
        following = self.parking.pass_on(entry)
        if following is not None:
            self._queue(following, now_us)
        self._note_room(entry.message.key)

    def _note_room(self, key: str) -> None:
        """One entry less is parked behind a key."""

    def _release(self, entry: Entry, now_us: int, *, unstarted: bool = False) -> None:
        """An entry is not running any more: give the slots of its limits back."""
        if entry.message.constraints is not None:
            self._limits.release(entry.message.constraints, now_us, unstarted=unstarted)

    def _wake_waiters(self) -> None:
        if self.waiters and not self.paused:
            for waiter in self.waiters:
                waiter.wake(None)
            self.waiters.clear()
