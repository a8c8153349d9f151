"""What a write transaction collects while verbs run in it: changed counts, control messages, and what waiting
callers must learn. The transaction of a store adds the statements, and writes this before its commit."""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import Stream
from headrace.core.records.control import ControlMessage, DueNotice

from .lanes import CHILD, DEAD, LIMITED, LOWEST, PARKED, RETRYING, RUNNING, SCHEDULED, SUSPECT
from .wake_ups import WakeUps

#: The count of the stream that includes a message, for each place. End records are not counted.
_COUNTED: Final = {
    **dict.fromkeys(range(SUSPECT, LOWEST + 1), 0),
    **dict.fromkeys(range(SUSPECT - CHILD, LOWEST + 1 - CHILD), 0),
    **dict.fromkeys(range(SUSPECT - CHILD - LIMITED, LOWEST + 1 - LIMITED), 0),
    RUNNING: 1,
    SCHEDULED: 2,
    RETRYING: 3,
    DEAD: 4,
    PARKED: 5,
}


class TransactionState:
    """A verb may run twice, after its transaction failed. So a verb changes nothing but its transaction."""

    def __init__(self, wake_ups: WakeUps, *, namespace: str, now_us: int, waited_for: bool = False) -> None:
        self.namespace = namespace
        self.now_us = now_us
        self.waited_for = waited_for  # whether every ended message may have a caller that waits for it
        self.ready = wake_ups.ready
        self.ended = wake_ups.ended
        self._counts: dict[int, list[int]] = {}
        self._notices: dict[ControlMessage, None] = {}

    def count(self, stream: int, place: int, difference: int) -> None:
        """Add a difference to the count for this place of the stream."""
        index = _COUNTED.get(place)
        if index is not None:
            self._counts.setdefault(stream, [0, 0, 0, 0, 0, 0])[index] += difference

    def counted(self, stream: int, place: int) -> int:
        """How much this transaction has changed a count so far."""
        changes = self._counts.get(stream)
        return changes[_COUNTED[place]] if changes else 0

    def forget_counts(self, stream: int) -> None:
        """Drop the differences of a stream that was emptied."""
        self._counts.pop(stream, None)

    def announce(self, notice: ControlMessage) -> None:
        self._notices[notice] = None

    def announce_if_due_sooner(self, stream: Stream, before_us: int | None, due_us: int) -> None:
        if before_us is None or due_us < before_us:
            self.announce(DueNotice(stream))
