"""The options that are given for a single call."""

from __future__ import annotations

import msgspec

from headrace.core.values.bounds import MomentUs, Seconds

from .retry import RetryPolicy


class Overrides(msgspec.Struct, frozen=True, array_like=True):
    """The options of one call that replace those of its task in the worker. None: the option of the task."""

    retry: RetryPolicy | None = None
    timeout: Seconds | None = None
    result_ttl: Seconds | None = None
    due_us: MomentUs = 0  # of a delayed call: when it is due, by the clock of the producer
    ordered: bool = False  # the call names the key of its order, so it is in a list of its own
