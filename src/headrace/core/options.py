"""The options of a task as its worker sees them, and those given for a single call."""

from __future__ import annotations

import msgspec

from .retry import RetryPolicy


class Overrides(msgspec.Struct, frozen=True, array_like=True):
    """What one call says differently from its task, for the worker to obey. None: as the task says."""

    retry: RetryPolicy | None = None
    timeout: float | None = None
    result_ttl: float | None = None
    due_us: int = 0  # of a delayed call: when it is meant to run, by the clock of whoever sent it
