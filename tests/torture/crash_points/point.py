"""A crash point: a call of a verb, by the way that led to it, and a moment of that call."""

from __future__ import annotations

from typing import Literal

import msgspec

#: The environment of a process of a round: the lease of its workers.
LEASE_SECONDS = "CRASH_POINTS_LEASE"

#: When in a call: before anything of it is sent; while it waits for the n-th time (`waits-1`: the request is
#: on its way); after the answer is there, before the caller has it.
Moment = str
BEFORE, AFTER = "before", "after"

#: What happens at a point: the process gets SIGKILL; the waiting task is cancelled, at once or at the moment
#: when what it waits for is there (`cancel-late`); or, where a child process is awaited, that one is killed.
Harm = Literal["kill", "cancel", "cancel-late", "kill-child"]


class Point(msgspec.Struct, frozen=True, order=True):
    """`way` is the chain of callers inside headrace, as file:function:line, outermost first."""

    verb: str
    way: tuple[str, ...]
    moment: Moment
    occurrence: int = 1  # the n-th time that the process comes here

    def __str__(self) -> str:
        way = " > ".join(self.way[-2:])
        nth = f" (time {self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.verb} {self.moment}{nth} in {way}"


class Harmed(msgspec.Struct, frozen=True):
    """What a process shall do to itself, and where."""

    point: Point
    harm: Harm


def waits(number: int) -> Moment:
    return f"waits-{number}"
