"""The server as the parts of the backend see it: script calls in, answers or our errors out; its clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from headrace.core.clock import Clock
from headrace.core.message import Stream

from .address import Address
from .connection import Link, SyncConnection, Wire, Word, pack
from .keys import NamespaceKeys
from .queue import Call, Queue
from .replies import error_of, is_error, leads_elsewhere
from .server import Server, check_server


class Store:
    """Everything but claims goes over one connection, on which many requests may be in flight at once."""

    def __init__(self, address: Address, namespace: str, clock: Clock) -> None:
        self.address = address
        self.namespace = namespace
        self.keys = NamespaceKeys(namespace)
        self.server = Server()
        self.link = Link(address, greet=self._greet)
        self._clock = clock
        self._ahead_us = 0
        self._queues: dict[Stream, Queue] = {}
        #: Streams that this process has written into the set of all.
        self.listed: set[Stream] = set()

    def queue(self, stream: Stream) -> Queue:
        queue = self._queues.get(stream)
        if queue is None:
            queue = self._queues[stream] = Queue(self.namespace, stream, self.offset_us)
        return queue

    def offset_us(self) -> int:
        """How far a test has moved the clock."""
        offset: int = getattr(self._clock, "offset_us", 0)
        return offset

    def now_us(self) -> int:
        """The store's clock as estimated from its last answer: close enough to show, not to decide by."""
        return time.time_ns() // 1000 + self._ahead_us + self.offset_us()

    def learn_time(self, seconds: bytes, microseconds: bytes) -> None:
        """Take a fresh answer of TIME into account."""
        self._ahead_us = int(seconds) * 1_000_000 + int(microseconds) - time.time_ns() // 1000

    async def run(self, call: Call, link: Link | None = None) -> Any:
        return (await self.run_all((call,), link))[0]

    async def run_all(self, calls: Sequence[Call], link: Link | None = None) -> list[Any]:
        """The answers of scripts, sent together and carried out in this order, but not as one step."""
        link = link or self.link
        replies = await link.ask(b"".join([call.packed for call in calls]), len(calls))
        if any(is_error(reply, "NOSCRIPT") for reply in replies):
            await self._repeat(calls, replies, link)
        self._check(replies, link)
        return replies

    async def command(self, *words: Word) -> Any:
        return (await self.commands(words))[0]

    async def commands(self, *commands: tuple[Word, ...]) -> list[Any]:
        replies = await self.link.ask(b"".join(map(pack, commands)), len(commands))
        self._check(replies, self.link)
        return replies

    async def _repeat(self, calls: Sequence[Call], replies: list[Any], link: Link) -> None:
        """Load the scripts that the server has forgotten and send their calls again: none was carried out."""
        missing = [index for index, reply in enumerate(replies) if is_error(reply, "NOSCRIPT")]
        again = [_with_script(calls[index]) for index in missing]
        answers = await link.ask(b"".join(again), 2 * len(again))
        for index, reply in zip(missing, answers[1::2], strict=True):
            replies[index] = reply

    def _check(self, replies: list[Any], link: Link) -> None:
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        if not errors:
            return
        if any(map(leads_elsewhere, errors)):
            link.drop()
        raise error_of(errors[0], self.server_name, uncertain=len(errors) < len(replies))

    @property
    def server_name(self) -> str:
        return f"the server at {self.address}"

    def connect_synchronously(self) -> SyncConnection:
        return SyncConnection(self.address)

    async def _greet(self, wire: Wire) -> None:
        info, when = await wire.send(pack(("INFO",)) + pack(("TIME",)), 2)
        if isinstance(when, ReplyError):
            raise error_of(when, self.server_name)
        self.learn_time(*when)
        # Where INFO is not allowed the checks cannot be made, which is no reason to refuse.
        if isinstance(info, bytes):
            self.server = check_server(info.decode(errors="replace"), self.server_name)
        self.listed.clear()


def _with_script(call: Call) -> bytes:
    return pack((b"SCRIPT", b"LOAD", call.script.source)) + call.packed


def run_synchronously(connection: SyncConnection, call: Call, server: str) -> Any:
    """The same over a synchronous connection."""
    [reply] = connection.ask(call.packed)
    if is_error(reply, "NOSCRIPT"):
        reply = connection.ask(_with_script(call), 2)[1]
    if isinstance(reply, ReplyError):
        connection.close()
        raise error_of(reply, server)
    return reply
