"""The place of a message, as a number. Claims take lanes in the order of these numbers. The statements of the
stores have the numbers, too.

SQLite overwrites a row in place when it keeps its size. So a row must keep it while the message moves from
lane to lane and is claimed. A number from 2 on, or below 0, takes one byte; 0 and 1 would take none. (A row
that was parked grows by one byte.)
"""

from __future__ import annotations

from typing import Final

from headrace.core.messages.message import State
from headrace.core.records.record import JobStatus

#: The event waits behind another event of its key, in an ordered group.
PARKED: Final = 1
#: The lane of child work is the normal lane minus this: -6 to -2.
CHILD: Final = 8
#: The place of a queued message with constraints is its lane minus this: -38 to -26.
LIMITED: Final = 32
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

#: The orders in which a claim takes the lanes after the lane of suspects.
TOP_DOWN: Final = (RETURNED, 4, 5, 6)
BOTTOM_UP: Final = (RETURNED, 6, 5, 4)

#: The first and the last place of each status.
RANGES: Final[dict[JobStatus, tuple[int, int]]] = {
    JobStatus.QUEUED: (SUSPECT - CHILD - LIMITED, LOWEST),
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


def lane_of(state: State, priority: int) -> int:
    """The lane in which a message is queued when it is due."""
    return SUSPECT if state.suspect else min(max(FIRST_PRIORITY, FIRST_PRIORITY + priority), LOWEST)


def lane_for(lane: int, *, child: bool, limited: bool = False) -> int:
    """The place of a message in this lane. Child work and messages with constraints have their own ranges."""
    return lane - (CHILD if child else 0) - (LIMITED if limited else 0)
