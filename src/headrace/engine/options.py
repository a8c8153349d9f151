"""The options of a worker."""

from __future__ import annotations

import msgspec


class WorkerOptions(msgspec.Struct, frozen=True):
    """The options after their check. Times are in seconds."""

    queues: tuple[str, ...]
    concurrency: int
    children: int
    lease: float
    grace: float
    max_payload: int
    end_record_ttl: float
