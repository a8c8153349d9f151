"""Finds the slot of a key, and the node of the cluster that owns a slot."""

from __future__ import annotations

import asyncio
import binascii
import copy
import random
import time
from typing import Any

from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.stores.redis.server.faults import CommandRefused, error_of, lost

from .address import Address, HostPort
from .connection import pack
from .first_answer import first_answer

SLOTS = 16384

#: Seconds for which the answer of a node counts as new, and is not asked for again.
FRESH = 0.1

_QUESTION = pack(("CLUSTER", "SLOTS"))


def slot_of(key: bytes) -> int:
    """The slot by the text in the first braces; by the whole key if there is none."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1) if start >= 0 else -1
    tag = key[start + 1 : end] if end > start + 1 else key
    return binascii.crc_hqx(tag, 0) % SLOTS


class ClusterSlots:
    """Knows the owner of each slot. Asks again when a node that should own a slot cannot be reached. When a
    single slot has moved, its former owner says so."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._owners: list[HostPort | None] = [None] * SLOTS
        self._known: tuple[HostPort, ...] = ()
        self._told_at = 0.0
        self._doubtful = True
        self._asking: asyncio.Task[None] | None = None

    @property
    def primaries(self) -> list[HostPort]:
        """The nodes that own slots."""
        return sorted({place for place in self._owners if place is not None})

    async def owner(self, slot: int) -> HostPort:
        if self._must_ask:
            await self._ask_once()
        return self._owner(slot)

    async def any_node(self, but: HostPort | None = None) -> HostPort:
        """Any node; if possible not `but`."""
        if self._must_ask:
            await self._ask_once()
        return random.choice([place for place in self._known if place != but] or self._known)  # nosec B311 # any will do

    def learn(self, slot: int, place: HostPort) -> None:
        """Note the new owner of a slot, as its former owner reports it."""
        self._owners[slot] = place

    def doubt(self) -> None:
        """Ask again before the next use: a node does not answer as expected."""
        self._doubtful = True

    @property
    def _must_ask(self) -> bool:
        return self._doubtful and time.monotonic() > self._told_at + FRESH

    def _owner(self, slot: int) -> HostPort:
        place = self._owners[slot]
        if place is None:
            self.doubt()
            raise lost(f"no node of {self._address.title} owns the slot {slot}")
        return place

    async def _ask_once(self) -> None:
        """Ask for the slots. Callers that need them at the same time share one request."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        try:
            await asyncio.shield(self._asking)
        except HeadraceError as error:
            raise copy.copy(error) from error  # each caller sets its own `uncertain`

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # the callers that still wait get it; this marks it as retrieved

    def abandon(self) -> None:
        """Forget the request: the event loop is gone, and no caller waits."""
        self._asking = None

    async def _ask(self) -> None:
        await first_answer(
            _QUESTION,
            [(place, self._address.at(place)) for place in self._candidates()],
            noun="node",
            read=self._read,
            no_answer=self._no_answer,
        )

    def _candidates(self) -> list[HostPort]:
        """The nodes to ask, in random order: one of them may be cut off and have old data."""
        places = list({*self._known, *self._address.nodes})
        random.shuffle(places)
        return places

    def _read(self, asked: HostPort, reply: Any) -> None:
        if isinstance(reply, ReplyError):
            raise error_of(reply, self._address.at(asked).title)
        if not reply:
            raise lost(f"the node at {asked[0]}:{asked[1]} knows of no slots: is the cluster set up?")
        owners: list[HostPort | None] = [None] * SLOTS
        known: set[HostPort] = set()
        for first, last, *nodes in reply:
            places = [_place(node, asked) for node in nodes]
            known.update(places)
            owners[first : last + 1] = [places[0]] * (last - first + 1)
        self._owners, self._known = owners, tuple(known)
        self._told_at, self._doubtful = time.monotonic(), False

    def _no_answer(self, errors: list[HeadraceError]) -> BackendUnavailable:
        texts = "; ".join(dict.fromkeys(map(str, errors)))
        what = f"no node of {self._address.title} tells who owns what: {texts}"
        return (
            CommandRefused(what) if all(isinstance(each, CommandRefused) for each in errors) else lost(what)
        )


def _place(node: list[Any], asked: HostPort) -> HostPort:
    """The place of a node. A node that does not know its own name has the place at which it was asked."""
    host = (node[0] or b"").decode()
    return (host if host not in ("", "?") else asked[0], node[1])


class SlotOwner:
    """Finds the node that owns a slot."""

    def __init__(self, slots: ClusterSlots, address: Address, slot: int) -> None:
        self._slots = slots
        self._address = address
        self._slot = slot

    async def find(self) -> Address:
        return self._address.at(await self._slots.owner(self._slot))

    def doubt(self) -> None:
        self._slots.doubt()


class AnyNode:
    """Finds any node: an announcement at one node reaches all. Each call returns another one, since the last
    connection was lost, or received nothing."""

    def __init__(self, slots: ClusterSlots, address: Address) -> None:
        self._slots = slots
        self._address = address
        self._last: HostPort | None = None

    async def find(self) -> Address:
        self._last = await self._slots.any_node(but=self._last)
        return self._address.at(self._last)

    def doubt(self) -> None:
        self._slots.doubt()
