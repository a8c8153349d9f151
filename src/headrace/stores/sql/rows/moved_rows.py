"""The rows of messages that move to another store, or come from one, in the columns of SQL stores."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.core.encoding.decoding import DECODE_ERRORS
from headrace.core.messages.message import Stream, decode_state
from headrace.core.moving.moving import SetAside, StoredMessage
from headrace.stores.sql.lanes import (
    CANCELLED,
    CHILD,
    DEAD,
    EXPIRED,
    LIMITED,
    LOWEST,
    PARKED,
    RETRYING,
    SCHEDULED,
    STATUS,
    SUCCEEDED,
    SUSPECT,
    lane_for,
)
from headrace.stores.sql.limits.budgets import constraints_of

#: Before the key of ordered jobs, so that it never equals a unique key.
ORDER_PREFIX: Final = "\norder:"

#: Behind the namespace of streams that were set aside. No namespace of a user ends with it.
ASIDE: Final = "\nmoving"

_PLACES: Final = {
    "parked": PARKED,
    "scheduled": SCHEDULED,
    "retrying": RETRYING,
    "dead": DEAD,
    "succeeded": SUCCEEDED,
    "cancelled": CANCELLED,
    "expired": EXPIRED,
}


class MovedRow(NamedTuple):
    """What a store selects of a message, in this order. `number` and `written_us` are of its event."""

    seq: int
    place: int
    at_us: int
    since_us: int
    priority: int
    expires_us: int
    id: str
    task: str
    unique_key: str | None
    unique_until: str | None
    state: bytes | None
    body: bytes | None
    child: bool
    handed_out: bool
    reason: str | None
    failure: bytes | None
    note: str | None
    result: bytes | None
    holds_key: bool
    lane: int
    number: int | None
    written_us: int | None
    constraints: str | None = None
    order_key: str | None = None
    holds_order: bool = False

    @property
    def message(self) -> StoredMessage:
        over = self.place > DEAD
        # An end record is kept until its `at_us`.
        return StoredMessage(
            id=self.id,
            task=self.task,
            status="parked" if self.place == PARKED else STATUS[self.place].value,  # type: ignore[arg-type]
            at_us=self.since_us if over else self.at_us,
            body=self.body,
            lane=_lane_of(self.place, self.lane),
            priority=self.priority,
            child=bool(self.child),
            expires_us=self.expires_us,
            state=self.state,
            key=self.unique_key,
            until=self.unique_until,
            holds_key=bool(self.holds_key),
            handed_out=bool(self.handed_out),
            number=self.number or 0,
            written_us=self.written_us or 0,
            reason=self.reason,
            failure=self.failure,
            note=self.note,
            result=self.result,
            kept_until_us=self.at_us if over else 0,
            constraints=constraints_of(self.constraints) if self.constraints else None,
            order_key=(self.order_key or "").removeprefix(ORDER_PREFIX),
            holds_order=bool(self.holds_order),
        )


def _lane_of(place: int, lane: int) -> int:
    """The lane as `StoredMessage` numbers it: the one of a queued message, else the one that it goes to when
    it is due."""
    queued = place + LIMITED if place < SUSPECT - CHILD else place
    queued = queued + CHILD if queued < 0 else queued
    return (queued if SUSPECT <= queued <= LOWEST else lane) - 1


def place_of(message: StoredMessage, *, limited: bool = False) -> int:
    """`limited`: the store has lines, and the message has constraints."""
    return _PLACES.get(message.status) or lane_for(message.lane + 1, child=message.child, limited=limited)


def times_of(message: StoredMessage) -> tuple[int, int]:
    """The columns `at_us` and `since_us`."""
    return (message.kept_until_us if message.over else message.at_us), message.at_us


def has_begun(state: bytes | None) -> bool:
    """Whether a handler has begun with the message. One whose state cannot be read becomes a dead letter."""
    try:
        return state is not None and decode_state(state).begun
    except DECODE_ERRORS:
        return False


def set_aside_of(stream: Stream, places: dict[int, int], events: int) -> SetAside:
    """A stream with the number of its messages at each place."""
    counts = dict.fromkeys(("queued", "scheduled", "retrying", "dead"), 0)
    for place, count in places.items():
        status = "queued" if place == PARKED else STATUS[place].value
        if status in counts:
            counts[status] += count
    queued, scheduled, retrying, dead = counts.values()
    return SetAside(stream, queued, scheduled, retrying, dead, events)
