"""The options of a task as its worker sees them, and those given for a single call."""

from __future__ import annotations

import msgspec

from headrace.core.values.bounds import MomentUs, Seconds

from .retry import RetryPolicy


class Overrides(msgspec.Struct, frozen=True, array_like=True):
    """What one call says differently from its task, for the worker to obey. None: as the task says."""

    retry: RetryPolicy | None = None
    timeout: Seconds | None = None
    result_ttl: Seconds | None = None
    due_us: MomentUs = 0  # of a delayed call: when it is meant to run, by the clock of whoever sent it
