"""What a slot hands on when it is done with a claim."""

from __future__ import annotations

from headrace.core.messages.outcome import Failure, Settlement


class FinishedRun(Settlement, frozen=True, eq=False, gc=False):
    """A claim with its outcome, which is what a store wants to know, and what is to be said about it."""

    task: str = ""
    seconds: float = 0.0
    failure: Failure | None = None
    lost: bool = False  # the lease was known to be lost before the handler ended
    late: bool = False  # of a delivery that is settled after its handler has returned
