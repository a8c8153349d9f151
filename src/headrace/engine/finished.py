"""What a slot hands on when it is done with a claim."""

from __future__ import annotations

import msgspec

from headrace.core.claim import Claim
from headrace.core.outcome import Failure, Outcome


class Finished(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A claim with its outcome, and what is to be said about it."""

    claim: Claim
    outcome: Outcome
    task: str = ""
    seconds: float = 0.0
    failure: Failure | None = None
    lost: bool = False  # the lease was known to be lost before the handler ended
    late: bool = False  # of a delivery that is settled after its handler has returned
