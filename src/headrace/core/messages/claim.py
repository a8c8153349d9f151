"""A claim: a message that a worker holds under a lease."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .constraints import Constraints
from .job_log import NO_LOG, JobLog
from .message import FRESH, NORMAL, State, Stream


class Claim(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A message that a worker holds until it settles it or the lease runs out.

    `stream` and `token` are as the store filled them in. `token` is the fence: it belongs to this one
    hand-out of the message, and only the store that made it reads it. It may be any value that can be
    compared. `claimed_us` is the store's clock at that moment.
    """

    stream: Stream
    id: str
    body: bytes
    token: object
    claimed_us: int
    state: State = FRESH
    priority: int = NORMAL
    expires_us: int = 0
    child: bool = False  # as the message said
    constraints: Constraints | None = None  # as the message said
    unreadable: str = ""  # why its entry cannot be read: it has no body then, and goes to the dead letters
    part_of: Stream | None = None  # where `stream` is a part: its queue or group, filled in by the router

    @property
    def whole(self) -> Stream:
        """The queue or group by the name that users know."""
        return self.part_of or self.stream

    @property
    def suspect(self) -> bool:
        """Whether it may be what makes its workers crash; see `State.suspect`."""
        return self.state.suspect


class Report(msgspec.Struct, frozen=True):
    """How far the run of a claim has come: a fraction from 0 to 1 (None: not reported), a few words, and the
    log so far."""

    claim: Claim
    fraction: float | None = None
    text: str = ""
    log: JobLog = NO_LOG


def size_of(claims: Iterable[Claim]) -> int:
    """The bytes of all bodies together."""
    return sum([len(claim.body) for claim in claims])
