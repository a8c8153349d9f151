"""A Redis backend on the bench: opened in a namespace of its own, with short ways to say common things."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import Outcome, Settlement, Verdict
from headrace.core.runtime.clock import SECOND
from headrace.stores import open_store
from headrace.stores.redis.intake.reader import ClaimReader
from tests.support.redis_leases import age_leases
from tests.support.servers import HOST, Reply, ask
from tests.support.waiting import wait_until

STREAM = Stream("queue", "work")
SOURCE = STREAM

#: Seconds that a claim would wait if nothing came.
LONG = 50.0


class Bench:
    """A backend on a real server, in a namespace of its own, and short ways to say common things."""

    def __init__(self, url: str, namespace: str) -> None:
        self.backend: Any = open_store(url, namespace=namespace)
        self.namespace = namespace
        self._url = url
        self._numbers = count(1)

    def batch(self, *messages: Message) -> Batch:
        return Batch(STREAM, f"producer-{id(self)}", next(self._numbers), list(messages))

    async def add(self, number: int = 1, *, body: bytes = b"hello") -> list[str]:
        messages = [Message(new_id(), "greet", body) for _ in range(number)]
        await self.backend.append(self.batch(*messages))
        return [message.id for message in messages]

    async def claim(
        self, limit: int = 1000, *, wait: float = 0, consumer: str = "worker", suspects: int = 10
    ) -> list[Claim]:
        claims: list[Claim] = await self.backend.claim(
            [SOURCE], consumer=consumer, limit=limit, suspects=suspects, wait=wait
        )
        return claims

    async def settle(self, outcome: Outcome, *claims: Claim) -> list[Verdict]:
        verdicts: list[Verdict] = await self.backend.settle([Settlement(claim, outcome) for claim in claims])
        return verdicts

    async def command(self, *words: str | bytes | int) -> Any:
        """One command on the server, over a connection of its own. A thread sends it, since the way to the
        server may lead through a proxy on this event loop."""
        return await asyncio.to_thread(self._ask, *words)

    def _ask(self, *words: str | bytes | int) -> Reply:
        place = urlsplit(self._url)
        with socket.create_connection((place.hostname or HOST, place.port or 0), timeout=5) as connection:
            return ask(connection, *words)

    def is_blocked(self) -> bool:
        """Whether a claim waits at the server."""
        readers = self.backend._readers.values()
        return any(isinstance(each, ClaimReader) and each._blocked.wire is not None for each in readers)

    async def is_awaited(self, id: str) -> bool:
        """Whether the store knows of a caller that waits for the end of this message."""
        place: bytes = await self.command("HGET", f"{{{self.namespace}:q:{STREAM.name}}}:ids", id) or b""
        return b"w" in place.partition(b";")[2]

    async def age(self, seconds: float) -> None:
        """Let what is held be held for so much longer. The server counts that on a clock of its own."""
        await asyncio.to_thread(age_leases, self._url, seconds)

    async def again(self, action: Callable[[], Any]) -> Any:
        """What `action` gives once the connection stands again."""
        answers: list[Any] = []

        async def succeeds() -> bool:
            try:
                answers.append(await action())
            except BackendUnavailable:
                return False
            return True

        await wait_until(succeeds, message="the backend is connected again")
        return answers[0]


@asynccontextmanager
async def opened(url: str, namespace: str | None = None) -> AsyncIterator[Bench]:
    bench = Bench(url, namespace or new_id())
    await bench.backend.open()
    try:
        await bench.backend.declare_stream(SOURCE, 15 * SECOND)
        yield bench
    finally:
        await bench.backend.close()
