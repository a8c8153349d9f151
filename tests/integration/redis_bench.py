"""A Redis backend on the bench: opened in a namespace of its own, with short ways to say common things."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from headrace.backends import open_store
from headrace.core.claim import Claim
from headrace.core.clock import SECOND
from headrace.core.errors import BackendUnavailable
from headrace.core.ids import new_id
from headrace.core.message import Batch, Message, Stream
from headrace.core.outcome import Outcome, Settlement, Verdict
from tests.waiting import wait_until

STREAM = Stream("queue", "work")
SOURCE = STREAM

#: Seconds that a claim would wait if nothing came.
LONG = 50.0


class Bench:
    """A backend on a real server, in a namespace of its own, and short ways to say common things."""

    def __init__(self, url: str, namespace: str) -> None:
        self.backend: Any = open_store(url, namespace=namespace)
        self.namespace = namespace
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
        await bench.backend.ensure(SOURCE, 15 * SECOND)
        yield bench
    finally:
        await bench.backend.close()
