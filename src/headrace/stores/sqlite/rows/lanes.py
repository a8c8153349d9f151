"""Where a message is, as a number, in the order in which lanes are claimed from.

Rows keep their size while a message moves from lane to lane and is claimed: SQLite then overwrites the row
where it lies. A number from 2 on, or below 0, takes one byte; 0 and 1 would take none. (What was parked grows
by one.)
"""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import FRESH, State, decode_state
from headrace.core.records.record import JobStatus
from headrace.core.values.decoding import DECODE_ERRORS

#: Behind another event of its key, in an ordered group.
PARKED: Final = 1
#: The lanes of child work are so far below those of other work: -6 to -2.
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

#: First and last place of each status.
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
    """Whether a message still waits although its time has passed. Of one that may have, the queries give its
    state in hexadecimal digits."""
    if state is None or place >= DEAD or place == RUNNING:
        return False
    try:
        return (decode_state(bytes.fromhex(state)) if state else FRESH).expired(expires_us, now_us)
    except DECODE_ERRORS:
        return False  # it dies when it is claimed


def lane_of(state: State, priority: int) -> int:
    """The lane in which a message is queued when its time has come."""
    return SUSPECT if state.suspect else min(max(FIRST_PRIORITY, FIRST_PRIORITY + priority), LOWEST)


def lane_for(lane: int, *, child: bool) -> int:
    """Where in this lane a message belongs: child work lies apart."""
    return lane - CHILD if child else lane
