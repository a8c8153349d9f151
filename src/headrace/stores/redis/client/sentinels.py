"""Asks sentinels where the primary is, and listens for a new primary."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hiredis import ReplyError

from headrace.core.encoding.decoding import text_of
from headrace.core.errors import BackendUnavailable, HeadraceError
from headrace.stores.redis.server.faults import CommandRefused, error_of, lost

from .address import Address, HostPort
from .connection import Link, Wire, pack
from .first_answer import first_answer

#: Seconds between two PINGs to a sentinel that we listen to, and at most between its loss and the next
#: attempt.
PULSE = 2.0

#: The channel on which a sentinel announces a new primary.
SWITCHES = "+switch-master"


class SentinelClient:
    """Asks the sentinel first that answered last, until a server that it named turns out to be the wrong one.

    Calls `moved` with the place of the new primary when a sentinel announces one.
    """

    def __init__(self, address: Address, moved: Callable[[HostPort], None]) -> None:
        assert address.sentinels is not None
        self._address = address
        self._master = address.sentinels.master
        self._places = list(address.sentinels.places)
        self._question = pack(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master))
        self._moved = moved
        self._watching: list[asyncio.Task[None]] = []

    # --- where it is -------------------------------------------------------------------------------------

    async def find(self) -> Address:
        return await first_answer(
            self._question,
            [(place, self._address.of_sentinel(place)) for place in self._places],
            noun="sentinel",
            read=self._found,
            no_answer=self._no_answer,
        )

    def doubt(self) -> None:
        """Ask another sentinel first next time."""
        first, *others = self._places
        self._places = [*others, first]

    def _found(self, place: HostPort, reply: Any) -> Address:
        if isinstance(reply, ReplyError):
            raise error_of(reply, self._name_of(place))
        if not reply:
            raise CommandRefused(
                f"{self._name_of(place)} knows no {self._master!r}: correct its name in the URL"
            )
        self._prefer(place)
        host, port = reply
        return self._address.at((host.decode(), int(port)))

    def _no_answer(self, errors: list[HeadraceError]) -> BackendUnavailable:
        """The error when no sentinel answers. It is permanent only if all of them refuse the request."""
        texts = "; ".join(dict.fromkeys(map(str, errors)))
        what = f"no sentinel tells where {self._master!r} is: {texts}"
        if all(isinstance(each, CommandRefused) for each in errors):
            return CommandRefused(f"{what} (the sentinels' own password is ?sentinel_password=)")
        return lost(what)

    def _name_of(self, place: HostPort) -> str:
        return f"the sentinel at {place[0]}:{place[1]}"

    # --- when it moves -----------------------------------------------------------------------------------

    def watch(self) -> None:
        """Listen to all sentinels from now on, so that connections move at once, also from a server that no
        longer answers. One sentinel is not enough: it may be cut off together with the old primary. Some
        learn of the new primary later than others, and until then name the old one."""
        self._watching = [asyncio.create_task(self._listen_to(place)) for place in self._places]

    def leave(self, *, on_own_loop: bool) -> None:
        watching, self._watching = self._watching, []
        if on_own_loop:
            for task in watching:
                task.cancel()

    async def _listen_to(self, place: HostPort) -> None:
        hear = partial(self._hear, place)
        link = Link(self._address.of_sentinel(place), greet=_subscribe, hear=hear)
        try:
            while True:
                with suppress(HeadraceError):
                    wire = await link.connected()
                    while not await wire.ended(PULSE):
                        await wire.send(pack(("PING",)))
                await asyncio.sleep(random.uniform(0, PULSE))  # nosec B311 # jitter
        finally:
            link.drop()

    def _hear(self, place: HostPort, message: Any) -> None:
        words = text_of(message[-1]).split(" ") if isinstance(message[-1], bytes) else []
        if len(words) == 5 and words[0] == self._master and words[4].isascii() and words[4].isdigit():
            self._prefer(place)
            self._moved((words[3], int(words[4])))

    def _prefer(self, place: HostPort) -> None:
        """Ask this sentinel first."""
        self._places = sorted(self._places, key=lambda each: each != place)


async def _subscribe(wire: Wire) -> None:
    [reply] = await wire.send(pack(("SUBSCRIBE", SWITCHES)))
    if isinstance(reply, ReplyError):
        raise error_of(reply, str(wire.address))
