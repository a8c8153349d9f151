"""Signals about the store itself."""

from __future__ import annotations

from .signal import Signal


class ClockStepped(Signal, frozen=True):
    """The store's clock was set by `seconds`; below 0: back. Leases count from now on, and nothing is
    recovered for one lease. Delayed jobs keep their due times: after a step back they wait longer."""

    seconds: float


class BackendError(Signal, frozen=True):
    """A service of the worker failed because of the store, and tries again.

    - `service`: the part of the worker
    - `error`: what the store said
    - `delay`: seconds until the next try
    """

    service: str
    error: str
    delay: float
