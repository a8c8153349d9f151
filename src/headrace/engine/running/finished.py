"""The result of a slot's work on a claim."""

from __future__ import annotations

from headrace.core.messages.outcome import Failure, Settlement


class FinishedRun(Settlement, frozen=True, eq=False, gc=False):
    """A claim with its outcome, for the store, and details for the signals."""

    task: str = ""
    seconds: float = 0.0
    failure: Failure | None = None
    lost: bool = False  # the lease was known to be lost before the handler ended
    late: bool = False  # the delivery is settled after its handler has returned
