"""Describes what one claim asks for, and picks the queue that comes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.core.rules.lanes import first_of, is_child_work_first, is_from_bottom
from headrace.core.store import CLAIM_BYTES
from headrace.stores.redis.queue import StreamScripts

#: Queues that one script looks at, at most.
WINDOW = 64


class ClaimRequest(msgspec.Struct, frozen=True):
    """What one claim asks for; the queue whose turn it is comes first."""

    queues: Sequence[StreamScripts]
    limit: int
    suspects: int
    children: int
    wait: float
    from_bottom: bool
    children_first: bool
    room: int = CLAIM_BYTES
    awaited: int = 0  # milliseconds for which the server notifies this consumer of new messages
    glances: bool = False  # skip the look when nothing was queued since the last one


def wanted(
    queues: Sequence[StreamScripts],
    *,
    limit: int,
    suspects: int,
    children: int | None,
    wait: float,
    turn: int,
) -> ClaimRequest:
    first = _first(len(queues), turn)
    return ClaimRequest(
        queues=(*queues[first:], *queues[:first]),
        limit=limit,
        suspects=suspects,
        children=limit if children is None else children,
        wait=wait,
        from_bottom=is_from_bottom(turn),
        children_first=is_child_work_first(turn),
    )


def _first(count: int, turn: int) -> int:
    """The index of the queue whose turn it is."""
    if count > WINDOW:
        # Each turn takes the next window. After one round over all windows, they start one queue further.
        return (turn * WINDOW + turn // (count // WINDOW)) % count
    return first_of(count, turn)


def batched(queues: Sequence[StreamScripts], size: int) -> Iterable[Sequence[StreamScripts]]:
    return [queues[start : start + size] for start in range(0, len(queues), size)]
