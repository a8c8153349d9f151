"""Keeps the unique keys of a stream and the messages that hold them."""

from __future__ import annotations

import heapq
from typing import Literal

import msgspec

from headrace.core.messages.message import UniqueKey

#: Later than any time: the key is held until it is released.
FOREVER = 1 << 62


class KeyHolder(msgspec.Struct, frozen=True, gc=False):
    id: str
    until_us: int


class UniqueKeys:
    """The step that ends an owner also releases its key: a key is never taken over from an ended message."""

    def __init__(self) -> None:
        self._holders: dict[str, KeyHolder] = {}
        self._passing: list[tuple[int, str]] = []

    def owner(self, key: str, now_us: int) -> str | None:
        """The id of the message that holds the key."""
        holder = self._holders.get(key)
        return holder.id if holder and holder.until_us > now_us else None

    def take(self, unique: UniqueKey, id: str, now_us: int) -> None:
        until_us = FOREVER
        if unique.until == "elapsed":
            until_us = now_us + unique.window_us
            heapq.heappush(self._passing, (until_us, unique.key))
        self._holders[unique.key] = KeyHolder(id, until_us)

    def release(self, unique: UniqueKey, id: str, *kinds: Literal["finished", "started", "elapsed"]) -> None:
        """Release the key if it is of one of these kinds and this message still holds it."""
        holder = self._holders.get(unique.key)
        elapses = unique.until == "elapsed"
        if unique.until in kinds and holder and holder.id == id and (holder.until_us < FOREVER) is elapses:
            del self._holders[unique.key]

    def free(self, key: str, now_us: int) -> bool:
        """Release a key from whatever message holds it; False: it is free."""
        held = self.owner(key, now_us) is not None
        self._holders.pop(key, None)
        return held

    def prune(self, limit: int, now_us: int) -> int:
        pruned = 0
        while pruned < limit and self._passing and self._passing[0][0] <= now_us:
            until_us, key = heapq.heappop(self._passing)
            holder = self._holders.get(key)
            if holder and holder.until_us == until_us:
                del self._holders[key]
                pruned += 1
        return pruned
