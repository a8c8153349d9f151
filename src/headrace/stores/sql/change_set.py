"""The changes that a step decides on. The step then writes them together: one statement for each kind of
change, and `moves` first. For a message that is handed back and found done in the same step must end."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.core.messages.constraints import Constraints
from headrace.core.messages.message import FRESH, State, Stream, encode_state
from headrace.core.messages.outcome import DeadReason, Failure
from headrace.core.rules.lease import FOREVER
from headrace.stores.sql.limits.line_changes import LineChanges

from .lanes import CANCELLED, DEAD, EXPIRED, LOWEST, PARKED, RETURNED, RUNNING, lane_for, lane_of
from .transaction_state import TransactionState

#: The key of a message that is ending or has started: stream, key, and the message's id.
HeldKey = tuple[int, str, str]


class ChangedMessage(msgspec.Struct):
    """A message that changes, as it was before the change."""

    stream: Stream
    number: int  # the number of the stream
    id: str
    place: int
    priority: int
    claim: int = 0
    cancel_us: int | None = None
    unique_key: str | None = None
    seq: int = 0  # the number of the message, in a store that finds its row by it
    awaited: bool = False  # a caller waits for its end
    expired: bool = False  # it has expired while it waits
    constraints: int | None = None  # the number of its constraints
    child: bool = False  # it is child work; known only of a message with constraints
    order_key: str | None = None  # jobs with this key run one at a time
    unstarted: bool = False  # it leaves its claim without a start


class Move(NamedTuple):
    """A message goes to another lane, or waits until `at_us`. `lane` is its lane after that."""

    subject: ChangedMessage
    place: int
    at_us: int
    lane: int
    state: State


class Ending(NamedTuple):
    """A message ends, and leaves an end record. `state` None: the record keeps the state of the message."""

    subject: ChangedMessage
    place: int
    until_us: int
    note: str | None
    result: bytes | None
    state: State | None


class Burial(NamedTuple):
    subject: ChangedMessage
    state: State
    reason: DeadReason
    failure: Failure


class EndedMessage(NamedTuple):
    """A message of a group that has ended, with the key that it held or was parked for."""

    group: Stream
    stream: int
    key: str
    id: str


class ChangeSet:
    def __init__(self, transaction: TransactionState) -> None:
        self.transaction = transaction
        self.moves: list[Move] = []
        self.endings: list[Ending] = []
        self.burials: list[Burial] = []
        self.forgotten: list[ChangedMessage] = []  # nothing stays of them
        self.awaited: list[str] = []  # callers wait for these messages, which are replaced
        self.unread: list[ChangedMessage] = []  # queued again as they are: their state cannot be read
        self.released: list[HeldKey] = []
        self.given_up: list[HeldKey] = []  # keys of expired messages
        self.passed_on: list[EndedMessage] = []
        self.passed_on_jobs: list[EndedMessage] = []  # of ordered jobs
        self.lines = LineChanges()
        #: The numbers of the constraints that settlements give to messages of a stream, by its number.
        self.numbers: dict[tuple[int, Constraints], int] = {}
        self.relabeled: list[ChangedMessage] = []  # their constraints change, before they move
        self.due: dict[Stream, tuple[int, int]] = {}  # the stream's number, and the earliest new due time

    def queue(self, subject: ChangedMessage, state: State, *, place: int | None = None) -> None:
        """Queue a message in its lane, or at `place`."""
        lane = lane_of(state, subject.priority)
        place = place or lane
        self.moves.append(Move(subject, place, self.transaction.now_us, lane, state))
        self._count(subject, place)
        self.transaction.ready.add(subject.stream)

    def relabel(self, subject: ChangedMessage, state: State, constraints: Constraints) -> None:
        """Queue a message with other constraints, in the line of its lane."""
        before, subject.constraints = subject.constraints, None
        if before is not None:
            self.lines.released.append((before, subject.unstarted))
            self.lines.ended.add(before)
        self.queue(subject, state)
        subject.constraints = self.numbers[subject.number, constraints]
        self.relabeled.append(subject)
        place = lane_for(subject.place, child=subject.child, limited=True)
        subject.place = self._join_line(subject.constraints, place)

    def queue_unread(self, subject: ChangedMessage) -> None:
        """Queue a message whose state cannot be read. Its next claim makes it a dead letter."""
        self.unread.append(subject)
        self._count(subject, RETURNED)
        self.transaction.ready.add(subject.stream)

    def schedule(self, subject: ChangedMessage, state: State, *, place: int, due_us: int) -> None:
        self.moves.append(Move(subject, place, due_us, lane_of(state, subject.priority), state))
        self._count(subject, place)
        _, earliest = self.due.get(subject.stream, (0, due_us))
        self.due[subject.stream] = subject.number, min(earliest, due_us)

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
            until_us = self.transaction.now_us + min(ttl_us, FOREVER)
            self.endings.append(Ending(subject, place, until_us, note or None, result, state))
        else:
            self.forgotten.append(subject)
        self._leave(subject, place)

    def cancel(self, subject: ChangedMessage, ttl_us: int) -> None:
        """End a message that waits."""
        self.end(subject, EXPIRED if subject.expired else CANCELLED, ttl_us=ttl_us)

    def make_way(self, subject: ChangedMessage) -> None:
        """Remove a waiting message. The step writes another message with its id, and its waiters wait on."""
        self.forgotten.append(subject)
        if subject.awaited:
            self.awaited.append(subject.id)
        self._part(subject, CANCELLED)
        self._count(subject, CANCELLED)

    def bury(self, subject: ChangedMessage, state: State, reason: DeadReason, failure: Failure) -> None:
        self.burials.append(Burial(subject, state, reason, failure))
        self._leave(subject, DEAD)

    def _leave(self, subject: ChangedMessage, place: int) -> None:
        """For every end: release the keys, and notify the callers that wait for the message."""
        self._part(subject, place)
        if self.transaction.waited_for or subject.awaited:
            self.transaction.ended.add((subject.stream, subject.id))
        self._count(subject, place)

    def _part(self, subject: ChangedMessage, place: int) -> None:
        """Release the keys of a message that leaves its place for good."""
        key = subject.unique_key
        if key is not None:
            if subject.stream.kind == "group":
                self.passed_on.append(EndedMessage(subject.stream, subject.number, key, subject.id))
            else:
                keys = self.given_up if place == EXPIRED else self.released
                keys.append((subject.number, key, subject.id))
        if subject.constraints is not None:
            self.lines.ended.add(subject.constraints)
        if subject.order_key is not None:
            ended = EndedMessage(subject.stream, subject.number, subject.order_key, subject.id)
            self.passed_on_jobs.append(ended)

    def _count(self, subject: ChangedMessage, place: int) -> None:
        self.transaction.count(subject.number, subject.place, -1)
        self.transaction.count(subject.number, place, 1)
        subject.place = place if subject.constraints is None else self._move_line(subject, place)

    def _move_line(self, subject: ChangedMessage, place: int) -> int:
        """Note what a message with constraints leaves and joins. Returns its new place."""
        number = subject.constraints
        assert number is not None
        if subject.place == RUNNING:
            self.lines.released.append((number, subject.unstarted))
        elif subject.place < PARKED:
            self.lines.moved[number, subject.place] -= 1
        if not PARKED < place <= LOWEST:
            return place
        return self._join_line(number, lane_for(place, child=subject.child, limited=True))

    def _join_line(self, number: int, place: int) -> int:
        self.lines.moved[number, place] += 1
        return place


def stored_state(state: State | None) -> bytes | None:
    """The state as a row holds it. A message that has not run yet has none."""
    return None if state is None or state == FRESH else encode_state(state)
