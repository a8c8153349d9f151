"""Collects the changes that a step decides on, and writes them together: one statement for each kind of
change."""

from __future__ import annotations

import msgspec

from headrace.core.messages.message import FRESH, State, Stream, encode_state
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.rules.lease import FOREVER
from headrace.stores.sqlite.statements import message_statements
from headrace.stores.sqlite.statements.bulk_binding import BulkBinding, listed
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.topics.key_order import EndedMessage, pass_on

from .lanes import DEAD, EXPIRED, lane_of
from .unique_keys import HeldKey, release_keys


class ChangedMessage(msgspec.Struct):
    """A message that changes, as it was before the change."""

    seq: int
    stream: Stream
    number: int  # the number of the stream
    id: str
    place: int
    priority: int
    claim: int = 0
    cancel_us: int | None = None
    unique_key: str | None = None
    expired: bool = False  # it has expired while it waits


class PendingChanges:
    """Nothing reaches the file before `write`."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._moves: list[tuple[object, ...]] = []
        self._ends: list[tuple[object, ...]] = []
        self._burials: list[tuple[object, ...]] = []
        self._forgotten: list[int] = []
        self._released: list[HeldKey] = []
        self._given_up: list[HeldKey] = []  # of expired messages
        self._ended: list[EndedMessage] = []
        self._due: dict[Stream, tuple[int, int]] = {}  # the stream's number, and the earliest new due time
        self._bytes = BulkBinding()

    # --- entries -----------------------------------------------------------------------------------------

    def queue(self, subject: ChangedMessage, state: State, *, place: int | None = None) -> None:
        """Queue a message in its lane, or at `place`."""
        lane = lane_of(state, subject.priority)
        self._move(subject, place or lane, self._transaction.now_us, lane, state)
        self._transaction.changes.ready.add(subject.stream)

    def schedule(self, subject: ChangedMessage, state: State, *, place: int, due_us: int) -> None:
        self._move(subject, place, due_us, lane_of(state, subject.priority), state)
        _, earliest = self._due.get(subject.stream, (0, due_us))
        self._due[subject.stream] = subject.number, min(earliest, due_us)

    def end(
        self,
        subject: ChangedMessage,
        place: int,
        *,
        ttl_us: int,
        result: bytes | None = None,
        note: str = "",
        state: State | None = None,
    ) -> None:
        """End a message. With `ttl_us` an end record stays for that time, and keeps the state or gets a new
        one; otherwise nothing stays."""
        if ttl_us > 0:
            until_us = self._transaction.now_us + min(ttl_us, FOREVER)
            stored = *self._bytes.put(result), *self._put_state(state)
            self._ends.append((subject.seq, place, until_us, note or None, *stored))
        else:
            self._forgotten.append(subject.seq)
        self._part(subject, place)

    def bury(self, subject: ChangedMessage, state: State, reason: DeadReason, failure: Failure) -> None:
        stored = self._bytes.put(msgspec.msgpack.encode(failure))
        self._burials.append((subject.seq, reason.value, *self._put_state(state), *stored))
        self._part(subject, DEAD)

    # --- writing -----------------------------------------------------------------------------------------

    def write(self) -> None:
        self._announce_due()
        connection, now_us = self._transaction.connection, self._transaction.now_us
        content = self._bytes.content()
        # Moves come first: a message that is handed back and found done in the same step must end.
        if self._moves:
            connection.change(message_statements.MOVE, (listed(self._moves), content))
        if self._burials:
            connection.change(message_statements.BURY, (listed(self._burials), content, now_us))
        if self._ends:
            connection.change(message_statements.END, (listed(self._ends), content, now_us))
        if self._forgotten:
            connection.change(message_statements.FORGET, (listed(self._forgotten),))
        release_keys(self._transaction, self._released)
        release_keys(self._transaction, self._given_up, expired=True)
        pass_on(self._transaction, self._ended)

    def _announce_due(self) -> None:
        for stream, (number, due_us) in self._due.items():
            before_us = self._transaction.next_due_us([number])
            self._transaction.announce_if_due_sooner(stream, before_us, due_us)

    def _move(self, subject: ChangedMessage, place: int, at_us: int, lane: int, state: State) -> None:
        self._moves.append((subject.seq, place, at_us, lane, *self._put_state(state)))
        self._count(subject, place)

    def _part(self, subject: ChangedMessage, place: int) -> None:
        """For every end: release the key, and notify the callers that wait for the message."""
        if subject.unique_key is not None:
            self._let_go(subject, subject.unique_key, place)
        self._transaction.ended(subject.stream, subject.id)
        self._count(subject, place)

    def _let_go(self, subject: ChangedMessage, key: str, place: int) -> None:
        if subject.stream.kind == "group":
            self._ended.append(EndedMessage(subject.stream, subject.number, key, subject.id))
        else:
            keys = self._given_up if place == EXPIRED else self._released
            keys.append((subject.number, key, subject.id))

    def _count(self, subject: ChangedMessage, place: int) -> None:
        self._transaction.count(subject.number, subject.place, -1)
        self._transaction.count(subject.number, place, 1)
        subject.place = place

    def _put_state(self, state: State | None) -> tuple[int | None, int]:
        return self._bytes.put(None if state is None or state == FRESH else encode_state(state))
