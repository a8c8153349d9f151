"""A queue as users see it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headrace.core.message import Stream
from headrace.core.record import Counts, moment


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue and how many jobs are in each state. Jobs are spread over `partitions` parts."""

    name: str
    queued: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    paused: bool = False
    oldest: datetime | None = None
    partitions: int = 1


def queue_info(stream: Stream, counts: Counts, partitions: int) -> QueueInfo:
    return QueueInfo(
        name=stream.name,
        queued=counts.queued,
        running=counts.running,
        scheduled=counts.scheduled,
        retrying=counts.retrying,
        dead=counts.dead,
        paused=counts.paused,
        oldest=moment(counts.oldest_us),
        partitions=partitions,
    )
