"""Keeps links to the nodes of a cluster, and sends each request to the node that owns its slot."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable
from headrace.stores.redis.scripts import Script
from headrace.stores.redis.server.faults import is_error, passes_soon, redirection_of

from .address import HostPort
from .cluster_slots import ClusterSlots
from .connection import Link, Wire, pack

#: Seconds for which to send a request again that a node cannot serve at the moment: while a slot moves to
#: another node, or part of the cluster is down. A caller that can wait longer starts again.
PATIENCE = 2.0

#: Seconds between two tries. They grow from the first value to the second, with jitter.
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.2

#: Redirections that one request follows before it fails.
REDIRECTIONS = 5

_ASKING = pack(("ASKING",))


class NodeRequest(msgspec.Struct):
    """One request, and what is known about how to send it."""

    packed: bytes
    slot: int
    script: Script | None = None
    reply: Any = None
    loads: bool = False  # load the script first: the node does not know it
    asked_at: HostPort | None = None  # the slot is moving there, and this key has arrived
    attempts: int = 0
    sent_to: HostPort = ("", 0)

    @property
    def commands(self) -> list[bytes]:
        """The commands to send. The last one is the request itself."""
        commands = [self.packed]
        if self.asked_at is not None:
            commands.insert(0, _ASKING)
        if self.loads and self.script is not None:
            commands.insert(0, pack((b"SCRIPT", b"LOAD", self.script.source)))
        return commands


class ClusterNodes:
    """One link for each node, made when it is first needed."""

    def __init__(self, slots: ClusterSlots, make: Callable[[HostPort], Link]) -> None:
        self._slots = slots
        self._make = make
        self._links: dict[HostPort, Link] = {}

    def at(self, place: HostPort) -> Link:
        link = self._links.get(place)
        if link is None:
            link = self._links[place] = self._make(place)
        return link

    async def wire_to(self, place: HostPort) -> Wire:
        try:
            return await self.at(place).connected()
        except BackendUnavailable:
            self._slots.doubt()
            raise

    async def wire_for(self, slot: int) -> Wire:
        """The connection to the node that owns the slot."""
        return await self.wire_to(await self._slots.owner(slot))

    async def carry_out(self, requests: Sequence[NodeRequest]) -> list[Any]:
        """Send requests and return the replies. A request that a node redirects, or cannot serve now, was not
        carried out and is sent again."""
        until, pause = time.monotonic() + PATIENCE, FIRST_PAUSE
        waiting = list(requests)
        while waiting:
            await self._send(waiting)
            waiting = [request for request in waiting if self._is_to_be_sent_again(request)]
            if any(passes_soon(request.reply) for request in waiting):
                if time.monotonic() > until:
                    break
                await asyncio.sleep(random.uniform(0, pause))  # nosec B311 # jitter
                pause = min(LONGEST_PAUSE, 2 * pause)
        return [request.reply for request in requests]

    async def _send(self, requests: list[NodeRequest]) -> None:
        by_place: dict[HostPort, list[NodeRequest]] = {}
        for request in requests:
            place = request.asked_at or await self._slots.owner(request.slot)
            by_place.setdefault(place, []).append(request)
        if len(by_place) == 1:
            [(place, several)] = by_place.items()
            await self._send_to(place, several)
            return
        results = await asyncio.gather(
            *[self._send_to(place, several) for place, several in by_place.items()], return_exceptions=True
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            error = failures[0]
            if isinstance(error, BackendUnavailable) and len(failures) < len(results):
                error.uncertain = True  # the other nodes carried out their requests
            raise error

    async def _send_to(self, place: HostPort, requests: list[NodeRequest]) -> None:
        commands = [request.commands for request in requests]
        data = b"".join([each for several in commands for each in several])
        try:
            replies = await self.at(place).ask(data, sum(map(len, commands)))
        except BackendUnavailable:
            self._slots.doubt()
            raise
        at = -1
        for request, several in zip(requests, commands, strict=True):
            at += len(several)
            request.reply, request.sent_to = replies[at], place

    def _is_to_be_sent_again(self, request: NodeRequest) -> bool:
        reply = request.reply
        if type(reply) is not ReplyError:
            return False
        request.attempts += 1
        redirection = redirection_of(reply, request.sent_to[0])
        if redirection is not None:
            request.asked_at = redirection.place if redirection.asks else None
            if not redirection.asks:
                self._slots.learn(redirection.slot, redirection.place)
                request.slot = redirection.slot
            return request.attempts <= REDIRECTIONS
        if passes_soon(reply):
            self._slots.doubt()
            # At the next try the slot may have arrived, or another node may own it.
            request.asked_at, request.attempts = None, 0
            return True
        if is_error(reply, "NOSCRIPT") and not request.loads:
            request.loads = True
            return True
        return False
