"""What a worker was asked for."""

from __future__ import annotations

import msgspec


class WorkerOptions(msgspec.Struct, frozen=True):
    """Checked; times are seconds."""

    queues: tuple[str, ...]
    concurrency: int
    children: int
    lease: float
    grace: float
    max_payload: int
    mark_ttl: float
