"""Steps on a PostgreSQL store that several tests take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Done, Released, Settlement, Verdict
from headrace.core.records.answers import Answer
from headrace.core.runtime.clock import SystemClock
from headrace.core.topics.topic import BEGINNING
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.store import PostgresStore
from tests.support.postgres_server import PostgresServer

QUEUE: Final = Stream("queue", "work")


@asynccontextmanager
async def opened(url: str, namespace: str = "") -> AsyncIterator[PostgresStore]:
    store = PostgresStore(
        PostgresAddress.parse(url), namespace=namespace or new_id(), durability="default", clock=SystemClock()
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def batch(*ids: str, unique: str = "", number: int = 1) -> Batch:
    key = UniqueKey(unique) if unique else None
    messages = [Message(id, "greet", b"hello", unique=key) for id in ids]
    return Batch(QUEUE, "producer", number, messages)


async def claimed(store: PostgresStore, limit: int = 10, wait: float = 0) -> list[str]:
    claims = await store.claim([QUEUE], consumer="worker", limit=limit, suspects=1, wait=wait)
    return [claim.id for claim in claims]


async def execute(server: PostgresServer, sql: str) -> None:
    """As the owner of the database."""
    async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
        await connection.execute(sql.encode())


async def value_of(server: PostgresServer, sql: str) -> object:
    """The first value that a statement answers."""
    async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
        row = await (await connection.execute(sql.encode())).fetchone()
    return row[0] if row else None


def new_name(prefix: str) -> str:
    """For a schema or a role that no other test has."""
    return f"{prefix}_{new_id()[-8:].lower()}"


async def exercise(store: PostgresStore) -> None:
    """Some of every kind of step."""
    queue, topic = Stream("queue", new_id()), new_id()
    await store.declare_stream(queue, 30_000_000)
    messages = [
        Message(new_id(), "greet", b"hello", unique=UniqueKey(new_id())),
        Message(new_id(), "greet", b""),
    ]
    for number, message in enumerate(messages, 1):
        assert await store.append(Batch(queue, "producer", number, [message])) == [Answer(message.id)]
    [first, second] = await store.claim([queue], consumer="worker", limit=10, suspects=1, wait=0)
    keeper = store.lease_keeper()
    assert await keeper.renew([first, second]) == ["kept", "kept"]
    await keeper.close()
    verdicts = await store.settle([Settlement(first, Done()), Settlement(second, Released())])
    assert verdicts == [Verdict.KEPT, Verdict.KEPT]
    assert (await store.counts(queue)).queued == 1
    group = group_stream(topic, "readers")
    await store.join(group, BEGINNING, ordered=True)
    events = [Message(new_id(), "event", b"", key="a") for _ in range(2)]
    await store.append(Batch(Stream("topic", topic), "producer", 1, events))
    for event in events:
        [claim] = await store.claim([group], consumer="worker", limit=10, suspects=1, wait=0)
        assert claim.id == event.id
        assert await store.settle([Settlement(claim, Done())]) == [Verdict.KEPT]
