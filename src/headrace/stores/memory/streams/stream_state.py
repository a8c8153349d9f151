"""The state of one stream, with the verbs that use it. The caller holds the lock."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import cast

import msgspec

from headrace.core.errors import Moved
from headrace.core.messages.claim import Claim, Report
from headrace.core.messages.message import Batch, Message, TrailEntry
from headrace.core.messages.outcome import (
    DONE,
    Cancelled,
    Dead,
    DeadReason,
    Done,
    Expired,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
    Verdict,
)
from headrace.core.records.answers import Answer, Recovery, Renewal
from headrace.core.records.control import LeaseNotice
from headrace.core.records.record import JobStatus, Progress
from headrace.core.store import crash_failure

from .entry import Entry
from .steered_states import SteeredStates

#: The room in a stream without a limit.
UNLIMITED = 1 << 62

# Read once: access to a member of an enumeration is slower than to a global name.
_QUEUED, _RUNNING, _SCHEDULED = JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.SCHEDULED
_RETRYING, _DEAD, _SUCCEEDED = JobStatus.RETRYING, JobStatus.DEAD, JobStatus.SUCCEEDED
_KEPT, _GONE, _LOST = Verdict.KEPT, Verdict.GONE, Verdict.LOST


class StreamState(SteeredStates):
    def declare(self, lease_us: int, now_us: int) -> int | None:
        self.established = True
        previous, self.lease = self.lease.us, self.lease.changed(lease_us, now_us)
        if previous in (None, lease_us):
            return None
        self._announce(LeaseNotice(self.stream, lease_us))
        return previous

    def wake(self) -> None:
        """Wake the waiters: perhaps something can be claimed or read."""
        self._wake_waiters()

    @property
    def in_use(self) -> bool:
        """Whether it has messages or schedules; end records do not count."""
        return bool(self.entries or self.schedules)

    # --- in ----------------------------------------------------------------------------------------------

    def append(self, batch: Batch, now_us: int, *, ticking: bool = False) -> list[Answer]:
        self.established = True
        repeated = self._producers.recall(batch, now_us)
        if repeated is not None:
            return repeated
        if self.sealed and not ticking:
            raise Moved(f"{self.stream.name} is sealed", answers=[None] * len(batch.messages))
        answers: list[Answer] = []
        room = self._room(batch.limit, now_us)
        for message in batch.messages:
            answer = self._refusal(message, room, now_us)
            if answer is None:
                room -= 1
                if message.unique is None:
                    self._add(message, now_us)
                    answer = Answer(message.id)
                else:
                    answer, left = self._add_with_key(message, now_us)
                    room += left
            answers.append(answer)
        self._producers.remember(batch, answers, now_us)
        self._wake_waiters()
        return answers

    def _add_with_key(self, message: Message, now_us: int) -> tuple[Answer, bool]:
        """Add a message that takes a unique key. Also answers whether one that waited has left."""
        replaced = self._replaceable(message, now_us)
        if replaced is not None:
            left = replaced.status is not _RETRYING
            self._replace(replaced, message, now_us)
            return Answer(replaced.message.id, "replaced"), left
        left = self._take_key(message, now_us)
        self._add(message, now_us)
        return Answer(message.id), left

    def holder(self, id: str, key: str, now_us: int) -> str | None:
        """This id if it is known, or the id of the message that holds the key."""
        if id in self.entries or self.end_records.get(id, now_us):
            return id
        return self.owner(key, now_us) if key else None

    def _room(self, limit: int | None, now_us: int) -> int:
        if limit is None:
            return UNLIMITED
        return limit - len(self.lanes) - len(self.parking) - self.due_messages.count(_SCHEDULED)

    def _refusal(self, message: Message, room: int, now_us: int) -> Answer | None:
        id = message.id
        if id in self.entries or self.end_records.get(id, now_us):
            return Answer(id, "duplicate")
        if message.unique:
            owner = self.owner(message.unique.key, now_us)
            if owner and message.on_duplicate != "replace":
                return Answer(owner, "duplicate")
            leaving = self._expired_owner(message.unique.key, now_us) or self._replaceable(message, now_us)
            room += leaving is not None and leaving.status is not _RETRYING  # it makes room
        return None if room > 0 else Answer(id, "full")

    # --- out and back ------------------------------------------------------------------------------------

    def take(self, lane: int, limit: int, room: int, consumer: str, now_us: int) -> list[Claim]:
        """Claim at most `limit` messages, and no more once they have `room` bytes."""
        return self._claims(self.lanes.take(lane, limit, room), consumer, now_us)

    def take_constrained(self, lane: int, limit: int, room: int, consumer: str, now_us: int) -> list[Claim]:
        """Claim messages with constraints, as far as their limits allow."""
        return self._claims(self.lanes.lines.take(lane, limit, room, now_us), consumer, now_us)

    def _claims(self, entries: list[Entry], consumer: str, now_us: int) -> list[Claim]:
        claims: list[Claim] = []
        stream, running, numbers = self.stream, self.running, self._numbers
        for entry in entries:
            message = entry.message
            token = next(numbers)
            entry.status = _RUNNING
            entry.since_us = entry.leased_us = now_us
            entry.token = token
            entry.worker = consumer
            running[token] = entry
            if message.unique:
                self.keys.release(message.unique, message.id, "started")
            priority, expires_us = message.priority, entry.expires_us
            state, child, constraints = entry.state, message.child, message.constraints
            claims.append(
                Claim(
                    stream,
                    message.id,
                    message.body,
                    token,
                    now_us,
                    state,
                    priority,
                    expires_us,
                    child,
                    constraints,
                )
            )
        return claims

    def settle_all(self, settlements: Iterable[Settlement], now_us: int) -> list[Verdict]:
        verdicts: list[Verdict] = []
        running, entries, watchers = self.running, self.entries, self.watchers
        for settlement in settlements:
            claim = settlement.claim
            entry = running.get(claim.token)
            if (
                settlement.outcome is DONE
                and entry is not None
                and entry.message.unique is None
                and entry.message.constraints is None
                and not entry.message.key
                and not watchers
            ):  # the common case: only the entry goes
                del running[claim.token], entries[claim.id]
                verdicts.append(_KEPT)
            else:
                verdicts.append(self.settle(claim, settlement.outcome, now_us))
        return verdicts

    def settle(self, claim: Claim, outcome: Outcome, now_us: int) -> Verdict:
        entry = self.running.pop(claim.token, None)
        if entry is not None:
            self._release(entry, now_us, unstarted=type(outcome) is Released and outcome.unstarted)
        if type(outcome) is Done:
            entry = entry or self._taken_from_another(claim, now_us)
            if entry is None:
                return _GONE
            kept = outcome.kept
            if kept is None:
                self._end(entry, _SUCCEEDED, 0, now_us)
            else:
                entry.state = outcome.state or entry.state
                self._end(entry, _SUCCEEDED, kept.ttl_us, now_us, result=kept.value, note=kept.note)
            return _KEPT
        if entry is None:
            return _LOST
        self._settle_other(entry, outcome, now_us)
        return _KEPT

    def _taken_from_another(self, claim: Claim, now_us: int) -> Entry | None:
        """The entry of a late success, removed from its lane or from the worker that runs it again."""
        entry = self.entries.get(claim.id)
        if entry is None or cast(int, claim.token) < entry.number:
            return None
        if entry.status is _RUNNING:
            self._release(entry, now_us)
            return self.running.pop(entry.token)
        if entry.status is _QUEUED:
            self._take_out(entry, now_us)
            return entry
        return None

    def _settle_other(self, entry: Entry, outcome: Outcome, now_us: int) -> None:
        match outcome:
            case Dead():
                self._bury(entry, outcome.state, outcome.reason, outcome.failure, now_us)
            case Cancelled():
                entry.state = outcome.state or entry.state
                self._end(entry, JobStatus.CANCELLED, outcome.ttl_us, now_us)
            case Expired():
                self._end(entry, JobStatus.EXPIRED, outcome.ttl_us, now_us)
            case Retry() | Snoozed() | Released():
                self._run_again(entry, outcome, now_us)

    def _run_again(self, entry: Entry, outcome: Retry | Snoozed | Released, now_us: int) -> None:
        if entry.cancelled_for_us is not None:
            self._end(entry, JobStatus.CANCELLED, entry.cancelled_for_us, now_us)
            return
        entry.state = outcome.state
        if outcome.delay_us > 0:
            status = _RETRYING if isinstance(outcome, Retry) else _SCHEDULED
            self._schedule(entry, status, now_us + outcome.delay_us, now_us)
        elif isinstance(outcome, Released) and outcome.constraints is not None:
            entry.message = msgspec.structs.replace(entry.message, constraints=outcome.constraints)
            self._queue(entry, now_us)
        else:
            self._queue(entry, now_us, returned=isinstance(outcome, Released))

    def renew(self, claim: Claim, now_us: int) -> Renewal:
        entry = self.running.get(claim.token)
        if entry is None:
            return Renewal.LOST
        entry.leased_us = now_us
        self.running[claim.token] = self.running.pop(claim.token)  # to the end
        return Renewal.KEPT if entry.cancelled_for_us is None else Renewal.CANCELLED

    def report(self, report: Report, now_us: int) -> None:
        if entry := self.running.get(report.claim.token):
            has_fraction = report.fraction is not None
            entry.progress = Progress(report.fraction or 0.0, report.text, now_us) if has_fraction else None
            entry.log = report.log

    # --- upkeep ------------------------------------------------------------------------------------------

    def restart_leases(self, now_us: int) -> None:
        """Reclaim nothing for the time of one lease from now, whatever the clock was before."""
        self.lease = self.lease.restarted(now_us)
        for entry in self.running.values():
            entry.leased_us = min(entry.leased_us, now_us)

    def recover(self, limit: int, now_us: int, crash_limit: int) -> list[Recovery]:
        if self._is_ahead(now_us):
            self.restart_leases(now_us)
        if not self.overdue(now_us):
            return []
        since_us = now_us - self.lease.at(now_us)
        first = islice(self.running.items(), limit)
        overdue = list(takewhile(lambda held: held[1].leased_us <= since_us, first))
        for token, entry in overdue:
            del self.running[token]
            self._release(entry, now_us)
        return [self._recover(entry, now_us, crash_limit) for _, entry in overdue]

    def _is_ahead(self, now_us: int) -> bool:
        """Whether a lease seems to begin in the future: the clock was set back."""
        first = next(iter(self.running.values()), None)
        return first is not None and first.leased_us > now_us

    def overdue(self, now_us: int) -> bool:
        """Whether a lease has expired. All are equally long: only the least recently renewed one counts."""
        first = next(iter(self.running.values()), None)
        return first is not None and first.leased_us + self.lease.at(now_us) <= now_us

    def _recover(self, entry: Entry, now_us: int, crash_limit: int) -> Recovery:
        state = entry.state.crashed(TrailEntry(now_us, "crashed", entry.worker)).logged(entry.log)
        worker = entry.worker
        if entry.cancelled_for_us is not None:
            self._end(entry, JobStatus.CANCELLED, entry.cancelled_for_us, now_us)
        elif state.crashes >= crash_limit:
            self._bury(entry, state, DeadReason.CRASHED, crash_failure(state.crashes), now_us)
        else:
            entry.state = state
            self._queue(entry, now_us, returned=True)
        message = entry.message
        return Recovery(self.stream, message.id, message.task, worker, state.crashes, entry.status)

    def promote(self, now_us: int) -> None:
        """Queue the entry that is due first."""
        self._queue(self.due_messages.pop(), now_us)

    def prune(self, limit: int, now_us: int) -> int:
        pruned = self.end_records.prune(limit, now_us)
        pruned += self.keys.prune(limit - pruned, now_us)
        pruned += self._producers.prune(limit - pruned, now_us)
        return pruned
