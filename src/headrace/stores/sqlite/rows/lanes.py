"""The place of a message, as a number. Claims take lanes in the order of these numbers.

Rows keep their size while a message moves from lane to lane and is claimed, so SQLite overwrites the row in
place. A number from 2 on, or below 0, takes one byte; 0 and 1 would take none. (A row that was parked grows
by one byte.)
"""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import FRESH, State, decode_state
from headrace.core.records.record import JobStatus
from headrace.core.values.decoding import DECODE_ERRORS

#: The event waits behind another event of its key, in an ordered group.
PARKED: Final = 1
#: The lane of child work is the normal lane minus this: -6 to -2.
CHILD: Final = 8
SUSPECT: Final = 2
RETURNED: Final = 3
#: The lane of a priority is this plus its number.
FIRST_PRIORITY: Final = 4
LOWEST: Final = 6
RUNNING: Final = 7
SCHEDULED: Final = 8
RETRYING: Final = 9
DEAD: Final = 10
SUCCEEDED: Final = 11
CANCELLED: Final = 12
EXPIRED: Final = 13

TOP_DOWN: Final = (RETURNED, 4, 5, 6)
BOTTOM_UP: Final = (RETURNED, 6, 5, 4)

#: The first and the last place of each status.
RANGES: Final[dict[JobStatus, tuple[int, int]]] = {
    JobStatus.QUEUED: (SUSPECT - CHILD, LOWEST),
    JobStatus.RUNNING: (RUNNING, RUNNING),
    JobStatus.SCHEDULED: (SCHEDULED, SCHEDULED),
    JobStatus.RETRYING: (RETRYING, RETRYING),
    JobStatus.DEAD: (DEAD, DEAD),
    JobStatus.SUCCEEDED: (SUCCEEDED, SUCCEEDED),
    JobStatus.CANCELLED: (CANCELLED, CANCELLED),
    JobStatus.EXPIRED: (EXPIRED, EXPIRED),
}

STATUS: Final[dict[int, JobStatus]] = {
    place: status for status, (first, last) in RANGES.items() for place in range(first, last + 1)
}


def has_expired(place: int, expires_us: int, state: str | None, now_us: int) -> bool:
    """Whether a message has expired while it waits. The statements give `state`, in hexadecimal digits, only
    when it may have expired."""
    if state is None or place >= DEAD or place == RUNNING:
        return False
    try:
        return (decode_state(bytes.fromhex(state)) if state else FRESH).expired(expires_us, now_us)
    except DECODE_ERRORS:
        return False  # its claim makes it a dead letter


def lane_of(state: State, priority: int) -> int:
    """The lane in which a message is queued when it is due."""
    return SUSPECT if state.suspect else min(max(FIRST_PRIORITY, FIRST_PRIORITY + priority), LOWEST)


def lane_for(lane: int, *, child: bool) -> int:
    """The place of a message in this lane: child work has its own range."""
    return lane - CHILD if child else lane
