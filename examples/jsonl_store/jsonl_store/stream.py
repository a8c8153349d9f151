"""One stream: the verbs that are asked of a queue, and of a group, which is a queue in all but name."""

from __future__ import annotations

from itertools import islice, takewhile

import msgspec

from headrace.store import (
    BRIEF_TTL_US,
    EXPIRED_TTL_US,
    FRESH,
    PRODUCER_TTL_US,
    Answer,
    Batch,
    CancelAnswer,
    Cancelled,
    CancelNotice,
    Claim,
    Dead,
    DeadReason,
    Done,
    Expired,
    Failure,
    JobLog,
    JobStatus,
    LeaseNotice,
    Message,
    Outcome,
    PauseNotice,
    Progress,
    Recovery,
    Released,
    Renewal,
    ReplayAnswer,
    Retry,
    Snoozed,
    TrailEntry,
    Verdict,
    crash_failure,
    refuse_if_overtaken,
)

from .entry import EndRecord, Entry, KeyHolder, LastBatch
from .messages import WAITING, Messages, passed_in


class StreamState(Messages):
    def declare(self, lease_us: int, now_us: int) -> int | None:
        self.established = True
        previous, self.lease = self.lease.us, self.lease.changed(lease_us, now_us)
        if previous in (None, lease_us):
            return None
        self.around.announce(LeaseNotice(self.stream, lease_us))
        return previous

    @property
    def in_use(self) -> bool:
        return bool(self.entries or self.schedules)

    # --- in ----------------------------------------------------------------------------------------------

    def append(self, batch: Batch, now_us: int) -> list[Answer]:
        self.established = True
        last = self.producers.get(batch.producer)
        if last and last.until_us > now_us:
            refuse_if_overtaken(batch, last.number)
            if last.number == batch.number:
                return last.answers
        answers = [self._append(message, batch.limit, now_us) for message in batch.messages]
        self.producers[batch.producer] = LastBatch(batch.number, answers, now_us + PRODUCER_TTL_US)
        return answers

    def _append(self, message: Message, limit: int | None, now_us: int) -> Answer:
        id, key = message.id, message.unique.key if message.unique else ""
        replaces = message.on_duplicate == "replace"
        if known := self.holder(id, "" if replaces else key, now_us):
            return Answer(known, "duplicate")
        replaced = self._replaceable(key, now_us) if replaces else None
        leaving = replaced or self._expired_owner(key, now_us)
        if limit is not None:
            makes_room = leaving is not None and leaving.status is not JobStatus.RETRYING
            if self.in_lanes() + self.waiting(JobStatus.SCHEDULED) - makes_room >= limit:
                return Answer(id, "full")
        if replaced is not None:
            return self._replace(replaced, message, now_us)
        if message.unique:
            self._take_key(message.unique, id, message.expired_ttl_us, now_us)
        self._add(message, now_us)
        return Answer(id)

    def _replaceable(self, key: str, now_us: int) -> Entry | None:
        """The entry that waits and holds this key."""
        entry = self.entries.get(self.owner(key, now_us) or "")
        if entry is None or entry.status in (JobStatus.RUNNING, JobStatus.DEAD):
            return None
        unique = entry.message.unique
        return entry if unique is not None and unique.key == key else None

    def _replace(self, replaced: Entry, message: Message, now_us: int) -> Answer:
        self._take_out(replaced)
        del self.entries[replaced.id]
        if not message.fresh:
            number, until_us = next(self.around.numbers), now_us + message.expired_ttl_us
            self.end_records[message.id] = EndRecord(
                *(message.id, message.task, number, JobStatus.CANCELLED, now_us, until_us, None, "", FRESH)
            )
        if message.unique:
            self._take_key(message.unique, replaced.id, message.expired_ttl_us, now_us)
        self._add(msgspec.structs.replace(message, id=replaced.id), now_us)
        return Answer(replaced.id, "replaced")

    def _add(self, message: Message, now_us: int) -> None:
        entry = Entry(message, next(self.around.numbers), JobStatus.QUEUED, now_us)
        self.entries[message.id] = entry
        due_us = max(message.due_us, now_us + message.delay_us)
        entry.expires_us = due_us + message.lifetime_us if message.lifetime_us else 0
        if due_us > now_us:
            self._wait(entry, JobStatus.SCHEDULED, due_us, now_us)
        else:
            self._queue(entry, now_us)

    # --- out and back ------------------------------------------------------------------------------------

    def take(self, lane: int, limit: int, room: int, consumer: str, now_us: int) -> list[Claim]:
        """At most `limit`, and no more once they have `room` bytes."""
        claims: list[Claim] = []
        for entry in list(islice(self.lanes[lane].values(), limit)):
            if room <= 0:
                break
            room -= len(entry.message.body)
            claims.append(self._hand_out(entry, consumer, now_us))
        return claims

    def _hand_out(self, entry: Entry, consumer: str, now_us: int) -> Claim:
        self._take_out(entry)
        message = entry.message
        entry.status, entry.since_us, entry.leased_us = JobStatus.RUNNING, now_us, now_us
        entry.token, entry.worker = next(self.around.numbers), consumer
        self.running[entry.token] = entry
        self._release_key(entry, "started")
        return Claim(
            self.stream,
            message.id,
            message.body,
            entry.token,
            now_us,
            entry.state,
            message.priority,
            entry.expires_us,
            message.child,
        )

    def settle(self, id: str, token: object, outcome: Outcome, now_us: int) -> Verdict:
        entry = self.running.pop(token, None)
        if isinstance(outcome, Done):
            entry = entry or self._take_from_another(id, token)
            if entry is None:
                return Verdict.GONE
            entry.state = outcome.state or entry.state
            self._end(entry, JobStatus.SUCCEEDED, 0, now_us, outcome.kept)
            return Verdict.KEPT
        if entry is None:
            return Verdict.LOST
        match outcome:
            case Dead(state, reason, failure):
                self._bury(entry, state, reason, failure, now_us)
            case Cancelled(ttl_us, state):
                entry.state = state or entry.state
                self._end(entry, JobStatus.CANCELLED, ttl_us, now_us)
            case Expired(ttl_us):
                self._end(entry, JobStatus.EXPIRED, ttl_us, now_us)
            case Retry() | Snoozed() | Released():
                self._run_again(entry, outcome, now_us)
        return Verdict.KEPT

    def _take_from_another(self, id: str, token: object) -> Entry | None:
        """What a late success still finds queued, or running elsewhere."""
        entry = self.entries.get(id)
        if entry is None or not isinstance(token, int) or token < entry.number:
            return None
        if entry.status is JobStatus.RUNNING:
            return self.running.pop(entry.token)
        if entry.status is JobStatus.QUEUED:
            self._take_out(entry)
            return entry
        return None

    def _run_again(self, entry: Entry, outcome: Retry | Snoozed | Released, now_us: int) -> None:
        if entry.cancelled_for_us is not None:
            self._end(entry, JobStatus.CANCELLED, entry.cancelled_for_us, now_us)
            return
        entry.state = outcome.state
        if outcome.delay_us > 0:
            status = JobStatus.RETRYING if isinstance(outcome, Retry) else JobStatus.SCHEDULED
            self._wait(entry, status, now_us + outcome.delay_us, now_us)
        else:
            self._queue(entry, now_us, returned=isinstance(outcome, Released))

    def renew(self, token: object, now_us: int) -> Renewal:
        entry = self.running.pop(token, None)
        if entry is None:
            return Renewal.LOST
        self.running[token] = entry  # to the end
        entry.leased_us = now_us
        return Renewal.KEPT if entry.cancelled_for_us is None else Renewal.CANCELLED

    def report(self, token: object, fraction: float | None, text: str, log: JobLog, now_us: int) -> None:
        if entry := self.running.get(token):
            entry.progress = None if fraction is None else Progress(fraction, text, now_us)
            entry.log = log

    # --- upkeep ------------------------------------------------------------------------------------------

    def restart_leases(self, now_us: int) -> None:
        """Nothing is recovered for one lease from now, whatever the clock was before."""
        self.lease = self.lease.restarted(now_us)
        for entry in self.running.values():
            entry.leased_us = min(entry.leased_us, now_us)

    def is_ahead(self, now_us: int) -> bool:
        """Whether a lease seems to begin in the future: the clock was set back."""
        first = next(iter(self.running.values()), None)
        return first is not None and first.leased_us > now_us

    def is_overdue(self, now_us: int) -> bool:
        """Whether a lease ran out. All are equally long, so the one not renewed for longest tells it."""
        first = next(iter(self.running.values()), None)
        return first is not None and first.leased_us + self.lease.at(now_us) <= now_us

    def recover(self, limit: int, now_us: int, crash_limit: int) -> list[Recovery]:
        if self.is_ahead(now_us):
            self.restart_leases(now_us)
        since_us = now_us - self.lease.at(now_us)
        first = islice(self.running.values(), limit)
        overdue = list(takewhile(lambda entry: entry.leased_us <= since_us, first))
        return [self._recover(entry, now_us, crash_limit) for entry in overdue]

    def _recover(self, entry: Entry, now_us: int, crash_limit: int) -> Recovery:
        del self.running[entry.token]
        state = entry.state.crashed(TrailEntry(now_us, "crashed", entry.worker)).logged(entry.log)
        if entry.cancelled_for_us is not None:
            self._end(entry, JobStatus.CANCELLED, entry.cancelled_for_us, now_us)
        elif state.crashes >= crash_limit:
            self._bury(entry, state, DeadReason.CRASHED, crash_failure(state.crashes), now_us)
        else:
            entry.state = state
            self._queue(entry, now_us, returned=True)
        return Recovery(self.stream, entry.id, entry.message.task, entry.worker, state.crashes, entry.status)

    def promote(self, now_us: int) -> None:
        """Queue the message that is due first."""
        entry = self.by_turn[self.due[0][1]]
        self._take_out(entry)
        self._queue(entry, now_us)

    def prune(self, limit: int, now_us: int) -> int:
        tables: list[dict[str, EndRecord] | dict[str, KeyHolder] | dict[str, LastBatch]]
        tables = [self.end_records, self.keys, self.producers]
        passed = [(table, key) for table in tables for key in passed_in(table, now_us)][:limit]
        for table, key in passed:
            del table[key]
        return len(passed)

    # --- steering ----------------------------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        self.paused = paused
        self.around.announce(PauseNotice(self.stream, paused))

    def cancel(self, id: str, ttl_us: int, now_us: int) -> CancelAnswer:
        entry = self.entries.get(id)
        if entry is None or entry.status is JobStatus.DEAD or entry.expired(now_us):
            return CancelAnswer.GONE
        if entry.status is JobStatus.RUNNING:
            entry.cancelled_for_us = ttl_us
            self.around.announce(CancelNotice(self.stream, id))
            return CancelAnswer.REQUESTED
        self._take_out(entry)
        self._end(entry, JobStatus.CANCELLED, ttl_us, now_us)
        return CancelAnswer.REMOVED

    def purge(self, ttl_us: int, limit: int, end_records: int, now_us: int) -> int:
        for purged in range(limit):
            entry = self._next_waiting()
            if entry is None:
                return purged
            self._take_out(entry)
            self._end_purged(entry, ttl_us, end_records, now_us)
        return limit

    def _next_waiting(self) -> Entry | None:
        """One that waits, wherever it does."""
        fronts = self.fronts()
        if fronts:
            return fronts[0]
        return self.by_turn[self.due[0][1]] if self.due else None

    def _end_purged(self, entry: Entry, ttl_us: int, end_records: int, now_us: int) -> None:
        status = JobStatus.EXPIRED if entry.expired(now_us) else JobStatus.CANCELLED
        left, since_us = self.purged
        if since_us + ttl_us <= now_us:
            left, since_us = 0, now_us
        # Other processes may wait for it. A short end record tells all of them.
        ttl_us = ttl_us if left < end_records else min(ttl_us, BRIEF_TTL_US)
        self.purged = left + (left < end_records), since_us
        self._end(entry, status, ttl_us, now_us)

    def replay(self, id: str, now_us: int) -> ReplayAnswer:
        entry = self.dead.get(id)
        if entry is None:
            return ReplayAnswer.GONE
        unique = entry.message.unique
        if unique and unique.until == "finished":
            if self.owner(unique.key, now_us):
                return ReplayAnswer.DUPLICATE
            self._take_key(unique, id, EXPIRED_TTL_US, now_us)
        del self.dead[id]
        entry.state, entry.cancelled_for_us, entry.expires_us = FRESH, None, 0
        entry.reason = entry.failure = None
        self._enter(entry, now_us)
        return ReplayAnswer.REPLAYED

    def bury(self, message: Message, reason: DeadReason, failure: Failure, now_us: int) -> None:
        """Add a message that was never queued to the dead letters."""
        self.established = True
        if self.find(message.id, now_us) is None:
            entry = Entry(message, next(self.around.numbers), JobStatus.DEAD, now_us)
            self.entries[message.id] = entry
            self._bury(entry, FRESH, reason, failure, now_us)

    def discard(self, id: str) -> bool:
        if self.dead.pop(id, None) is None:
            return False
        del self.entries[id]
        return True

    def clean(self, id: str, status: JobStatus, ttl_us: int, now_us: int) -> bool:
        """Remove a message if it is in this state."""
        if status is JobStatus.DEAD:
            return self.discard(id)
        if status.over:
            record = self.end_record(id, now_us)
            if record is None or record.status is not status:
                return False
            del self.end_records[id]
            return True
        entry = self.entries.get(id)
        if entry is None or entry.status is not status:
            return False
        if status is JobStatus.RUNNING:
            del self.running[entry.token]
        else:
            self._take_out(entry)
        self._end(entry, JobStatus.EXPIRED if entry.expired(now_us) else JobStatus.CANCELLED, ttl_us, now_us)
        return True

    def release_key(self, key: str, now_us: int) -> bool:
        held = self.key_holder(key, now_us) is not None
        self.keys.pop(key, None)
        return held

    def run_now(self, id: str, now_us: int) -> bool:
        entry = self.entries.get(id)
        if entry is None or entry.status not in WAITING:
            return False
        self._take_out(entry)
        self._queue(entry, now_us)
        return True

    def rewrite(self, id: str, body: bytes) -> bool:
        entry = self.entries.get(id)
        if entry is None or entry.status not in (*WAITING, JobStatus.DEAD):
            return False
        entry.message = msgspec.structs.replace(entry.message, body=body)
        return True
