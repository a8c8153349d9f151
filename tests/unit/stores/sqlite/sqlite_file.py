"""A SQLite store looked at from inside: one connection, and verbs carried out on it without threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import NORMAL, Batch, Message, Stream
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import MovableClock
from headrace.stores.sql.claim_query import ClaimQuery
from headrace.stores.sqlite.connection.connection import Connection
from headrace.stores.sqlite.connection.schema import bring_up_to_date
from headrace.stores.sqlite.threads.transaction import Transaction
from headrace.stores.sqlite.verbs.append import append
from headrace.stores.sqlite.verbs.claim import claim

T = TypeVar("T")

NAMESPACE = "headrace"
STREAM = Stream("queue", "work")
SOURCE = STREAM


def message(
    id: str | None = None, *, body: bytes = b"hello", priority: int = NORMAL, delay_us: int = 0
) -> Message:
    return Message(id or new_id(), "greet", body, priority, delay_us=delay_us)


class SqliteFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = MovableClock()
        self.connection = Connection(path, synchronous="NORMAL", prepare=bring_up_to_date)
        self.connection.open()
        self._numbers = 0

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def transact(self, run: Callable[[Transaction], T]) -> T:
        self.connection.begin()
        transaction = Transaction(
            self.connection, namespace=NAMESPACE, now_us=self.clock.now_us(), waited_for=True
        )
        answer = run(transaction)
        transaction.finish()
        self.connection.commit()
        return answer

    def append(self, *messages: Message, stream: Stream = STREAM) -> list[Answer]:
        self._numbers += 1
        batch = Batch(stream, "producer", self._numbers, list(messages))
        return self.transact(lambda transaction: append(transaction, batch))

    def fill(self, count: int, *, delay_us: int = 0) -> None:
        for _ in range(count // 1000):
            self.append(*[message(delay_us=delay_us) for _ in range(1000)])

    def claim(
        self, limit: int = 100, *, suspects: int = 1, turn: int = 1, source: Stream = SOURCE
    ) -> list[Claim]:
        request = ClaimQuery([source], "worker-1", limit, suspects, turn)
        return self.transact(lambda transaction: claim(transaction, request))

    def close(self) -> None:
        self.connection.close()
