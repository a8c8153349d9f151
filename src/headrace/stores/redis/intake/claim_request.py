"""Describes what one claim asks for, and picks the queue that comes first."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import cast

import msgspec

from headrace.core.messages.claim import Claim
from headrace.core.messages.message import Stream
from headrace.core.rules.lanes import first_of, is_child_work_first, is_from_bottom, share_of_constrained
from headrace.core.store import CLAIM_BYTES
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.keys import SUSPECTS
from headrace.stores.redis.stream_scripts import StreamScripts

#: Queues that one script looks at, at most.
WINDOW = 64


class ClaimRequest(msgspec.Struct, frozen=True):
    """What one claim asks for; the queue whose turn it is comes first."""

    queues: Sequence[StreamScripts]
    limit: int
    suspects: int
    children: int
    constrained: int
    wait: float
    from_bottom: bool
    children_first: bool
    odd_constrained: bool  # with constraints is one more than without, where a lane gives an odd number
    room: int = CLAIM_BYTES
    awaited: int = 0  # milliseconds for which the server notifies this consumer of new messages
    glances: bool = False  # skip the look when nothing was queued since the last one

    def windows(self, first: StreamScripts | None) -> list[ClaimRequest]:
        """Split a look at many queues into steps. The first step begins at the queue `first`."""
        queues = self.queues
        if len(queues) <= WINDOW:
            return [self]
        if first is not None and first in queues:
            start = queues.index(first)
            queues = (*queues[start:], *queues[:start])
        return [msgspec.structs.replace(self, queues=some) for some in batched(queues, WINDOW)]

    def divide(self, claims: Iterable[Claim], paused: Container[Stream]) -> tuple[list[Claim], list[Claim]]:
        """The claims that the request has room for, and the others."""
        taken: list[Claim] = []
        surplus: list[Claim] = []
        suspects, children, constrained = self.suspects, self.children, self.constrained
        for claim in claims:
            token = cast(EntryToken, claim.token)
            suspect = token.lane in SUSPECTS
            fits = len(taken) < self.limit and suspects >= suspect and children >= claim.child
            if fits and constrained >= token.limited and claim.stream not in paused:
                taken.append(claim)
                suspects -= suspect
                children -= claim.child
                constrained -= token.limited
            else:
                surplus.append(claim)
        return taken, surplus


def wanted(
    queues: Sequence[StreamScripts],
    *,
    limit: int,
    suspects: int,
    children: int | None,
    constrained: int | None,
    wait: float,
    turn: int,
) -> ClaimRequest:
    first = _first(len(queues), turn)
    return ClaimRequest(
        queues=(*queues[first:], *queues[:first]),
        limit=limit,
        suspects=suspects,
        children=limit if children is None else children,
        constrained=limit if constrained is None else constrained,
        wait=wait,
        from_bottom=is_from_bottom(turn),
        children_first=is_child_work_first(turn),
        odd_constrained=share_of_constrained(1, turn) > 0,
    )


def is_limited(claim: Claim) -> bool:
    """Whether a message has constraints or an order key."""
    return cast(EntryToken, claim.token).limited


def _first(count: int, turn: int) -> int:
    """The index of the queue whose turn it is."""
    if count > WINDOW:
        # Each turn takes the next window. After one round over all windows, they start one queue further.
        return (turn * WINDOW + turn // (count // WINDOW)) % count
    return first_of(count, turn)


def batched(queues: Sequence[StreamScripts], size: int) -> Iterable[Sequence[StreamScripts]]:
    return [queues[start : start + size] for start in range(0, len(queues), size)]
