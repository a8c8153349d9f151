"""The messages of a stream in every state, and the moves between the states.

Everything here and in `stream.py` is a function of the state and the time that it is given. So every process
that replays the journal comes to the same state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from headrace.store import (
    NO_LOG,
    ControlMessage,
    DeadReason,
    DueNotice,
    Failure,
    JobStatus,
    Kept,
    Lease,
    ScheduleRecord,
    State,
    Stream,
    UniqueKey,
)

from .entry import EndRecord, Entry, KeyHolder, LastBatch

#: The lanes. That of a priority is `FIRST_PRIORITY` plus its number, that of child work is `CHILD` above.
SUSPECT, RETURNED, FIRST_PRIORITY, CHILD = 0, 1, 2, 5

#: Later than any time.
NEVER: Final = 1 << 62

WAITING: Final = (JobStatus.SCHEDULED, JobStatus.RETRYING)


class Surroundings(msgspec.Struct, frozen=True):
    """What a stream needs from the state around it: the counter of all streams, and where to report."""

    numbers: Iterator[int]
    announce: Callable[[ControlMessage], None]
    ended: Callable[[Stream, str], None]


class Messages:
    """The messages of a stream, each in one place, and the moves between the places."""

    def __init__(self, stream: Stream, around: Surroundings) -> None:
        self.stream = stream
        self.around = around
        self.established = False  # declared or appended to
        self.paused = False
        self.lease = Lease()
        self.entries: dict[str, Entry] = {}  # all that wait, run or are dead
        self.lanes: list[dict[str, Entry]] = [{} for _ in range(2 * CHILD)]
        self.due: list[tuple[int, int]] = []  # due time and turn, sorted
        self.by_turn: dict[int, Entry] = {}  # what is due at that turn
        self.running: dict[object, Entry] = {}  # by token; the longest since renewal first
        self.dead: dict[str, Entry] = {}  # the latest death last
        self.end_records: dict[str, EndRecord] = {}
        self.keys: dict[str, KeyHolder] = {}
        self.producers: dict[str, LastBatch] = {}
        self.schedules: dict[str, ScheduleRecord] = {}
        self.purged = 0, 0  # end_records that purges left, since when

    # --- looking -----------------------------------------------------------------------------------------

    def find(self, id: str, now_us: int) -> Entry | EndRecord | None:
        return self.entries.get(id) or self.end_record(id, now_us)

    def end_record(self, id: str, now_us: int) -> EndRecord | None:
        record = self.end_records.get(id)
        return record if record and record.until_us > now_us else None

    def waiting(self, status: JobStatus) -> int:
        return sum(entry.status is status for entry in self.by_turn.values())

    def in_lanes(self) -> int:
        return sum(map(len, self.lanes))

    def queued(self) -> int:
        return self.in_lanes()

    def fronts(self) -> list[Entry]:
        """The first of each lane."""
        return [next(iter(lane.values())) for lane in self.lanes if lane]

    def oldest_us(self) -> int:
        return min((entry.since_us for entry in self.fronts()), default=0)

    def holder(self, id: str, key: str, now_us: int) -> str | None:
        """The id that an append would name as its duplicate."""
        return id if self.find(id, now_us) else self.owner(key, now_us)

    def owner(self, key: str, now_us: int) -> str | None:
        """The id of the message that holds a unique key, and has not expired."""
        return None if self._expired_owner(key, now_us) else self.key_holder(key, now_us)

    def key_holder(self, key: str, now_us: int) -> str | None:
        holder = self.keys.get(key)
        return holder.id if holder and holder.until_us > now_us else None

    def _expired_owner(self, key: str, now_us: int) -> Entry | None:
        entry = self.entries.get(self.key_holder(key, now_us) or "")
        unique = entry.message.unique if entry else None
        return entry if entry and unique and unique.key == key and entry.expired(now_us) else None

    # --- moves -------------------------------------------------------------------------------------------

    def _enter(self, entry: Entry, now_us: int) -> None:
        """Queue an entry that was dead."""
        self._queue(entry, now_us)

    def _queue(self, entry: Entry, now_us: int, *, returned: bool = False) -> None:
        entry.status, entry.since_us = JobStatus.QUEUED, now_us
        entry.due_us, entry.progress, entry.log = 0, None, NO_LOG
        if entry.state.suspect:
            lane = SUSPECT
        elif returned:
            lane = RETURNED
        else:
            lane = FIRST_PRIORITY + entry.message.priority
        self._put(entry, lane)

    def _put(self, entry: Entry, lane: int) -> None:
        entry.lane = lane + CHILD if entry.message.child else lane
        self.lanes[entry.lane][entry.id] = entry

    def _wait(self, entry: Entry, status: JobStatus, due_us: int, now_us: int) -> None:
        entry.status, entry.since_us = status, now_us
        entry.due_us, entry.turn = due_us, next(self.around.numbers)
        if not self.due or due_us < self.due[0][0]:
            self.around.announce(DueNotice(self.stream))
        insort(self.due, (due_us, entry.turn))
        self.by_turn[entry.turn] = entry

    def _take_out(self, entry: Entry) -> None:
        """Remove a waiting entry from where it waits."""
        if entry.status is JobStatus.QUEUED:
            del self.lanes[entry.lane][entry.id]
        else:
            del self.due[bisect_left(self.due, (entry.due_us, entry.turn))]
            del self.by_turn[entry.turn]

    def _bury(self, entry: Entry, state: State, reason: DeadReason, failure: Failure, now_us: int) -> None:
        entry.status, entry.since_us = JobStatus.DEAD, now_us
        entry.state, entry.reason, entry.failure = state, reason, failure
        entry.died = next(self.around.numbers)
        self.dead[entry.id] = entry
        self._part(entry, now_us)

    def _end(
        self, entry: Entry, status: JobStatus, ttl_us: int, now_us: int, kept: Kept | None = None
    ) -> None:
        entry.status = status
        del self.entries[entry.id]
        ttl_us = kept.ttl_us if kept else ttl_us
        if ttl_us > 0:
            self.end_records.pop(entry.id, None)  # an event may come again while its end record is kept
            self.end_records[entry.id] = EndRecord(
                entry.id,
                entry.message.task,
                next(self.around.numbers),
                status,
                now_us,
                now_us + ttl_us,
                kept.value if kept else None,
                kept.note if kept else "",
                entry.state,
            )
        self._part(entry, now_us)

    def _part(self, entry: Entry, now_us: int) -> None:
        """What every end has in common: the key is released, and the processes that wait for it are woken."""
        expired = entry.status is JobStatus.EXPIRED
        self._release_key(entry, "finished", "started", *(["elapsed"] if expired else []))
        self.around.ended(self.stream, entry.id)

    def _release_key(self, entry: Entry, *kinds: str) -> None:
        unique = entry.message.unique
        if unique is None or unique.until not in kinds:
            return
        holder = self.keys.get(unique.key)
        elapses = unique.until == "elapsed"
        if holder and holder.id == entry.id and (holder.until_us < NEVER) is elapses:
            del self.keys[unique.key]

    def _take_key(self, unique: UniqueKey, id: str, ttl_us: int, now_us: int) -> None:
        if expired := self._expired_owner(unique.key, now_us):
            self._take_out(expired)
            self._end(expired, JobStatus.EXPIRED, ttl_us, now_us)
        until_us = now_us + unique.window_us if unique.until == "elapsed" else NEVER
        self.keys[unique.key] = KeyHolder(id, until_us)


def passed_in(table: Mapping[str, EndRecord | KeyHolder | LastBatch], now_us: int) -> list[str]:
    return [key for key, each in table.items() if each.until_us <= now_us]
