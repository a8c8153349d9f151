"""The options of a worker."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.engine.history.keeping import NO_HISTORY, HistoryKeeping


class WorkerOptions(msgspec.Struct, frozen=True):
    """The options after their check. Times are in seconds."""

    queues: tuple[str, ...]
    concurrency: int
    children: int
    lease: float
    grace: float
    max_payload: int
    end_record_ttl: float
    slots: Mapping[str, int] = {}  # of queues that may not use all slots
    history: HistoryKeeping = NO_HISTORY
