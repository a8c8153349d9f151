"""Steps with limits that meet in time."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from headrace.core.limits.figures import LimitFigures
from headrace.core.limits.limiting import Limiting
from headrace.core.messages.claim import Claim
from headrace.core.messages.constraints import Constraints, LimitKey
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.runtime.clock import SECOND, MovableClock
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.postgres.limits.taking import claim_with_lines
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.verbs import claiming
from headrace.stores.sql.claim_query import ClaimQuery
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

QUEUE, OTHER = Stream("queue", "jobs"), Stream("queue", "others")

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headrace.lines ' || %s, 0))"

IS_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

#: As if another process had just appended the first message with constraints to this stream.
CONSTRAIN = """
WITH concerned AS (SELECT stream FROM headrace.streams WHERE namespace = %(namespace)s AND name = 'others'),
noted AS (UPDATE headrace.streams SET held_lines = true WHERE stream IN (SELECT stream FROM concerned)),
added AS (
    INSERT INTO headrace.constraints (stream, tenant, content)
    SELECT stream, 'acme', '[[],"acme"]' FROM concerned RETURNING stream, constraints)
UPDATE headrace.messages AS message SET constraints = added.constraints
FROM added WHERE message.stream = added.stream
"""


async def test_a_promotion_knows_a_message_with_constraints_that_came_meanwhile(
    server: PostgresServer,
) -> None:
    clock, namespace = MovableClock(), new_id()
    store = open_store(server.url, namespace=namespace, clock=clock)
    await store.open()
    try:
        limited = Message(new_id(), "greet", b"", delay_us=SECOND, constraints=Constraints((), "acme"))
        await store.append(Batch(QUEUE, "producer", 1, [limited]))
        plain = Message(new_id(), "greet", b"", delay_us=SECOND)
        await store.append(Batch(OTHER, "producer", 1, [plain]))
        clock.advance(2)
        async with await psycopg.AsyncConnection.connect(server.url) as holder:
            await holder.execute(LOCK, (namespace,))
            promoting = asyncio.create_task(store.promote([QUEUE, OTHER], limit=10))
            await wait_until(lambda: is_waiting(server))
            await holder.execute(CONSTRAIN, {"namespace": namespace})
        assert (await promoting).count == 2
        claims = await store.claim([QUEUE, OTHER], consumer="worker", limit=10, suspects=1, wait=0)
        assert {claim.id for claim in claims} == {limited.id, plain.id}
    finally:
        await store.close()


async def test_a_claim_of_a_line_that_is_alone_needs_no_transaction_while_slots_are_free(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions: list[ClaimQuery] = []

    async def noted(transaction: PostgresTransaction, query: ClaimQuery) -> list[Claim]:
        transactions.append(query)
        return await claim_with_lines(transaction, query)

    monkeypatch.setattr(claiming, "claim_with_lines", noted)
    store = open_store(server.url, namespace=new_id())
    await store.open()
    try:
        assert isinstance(store, Limiting)
        await store.declare_limits([LimitFigures("stripe", 10)])
        limited = Constraints((LimitKey("stripe"),))
        messages = [Message(new_id(), "greet", b"hello", constraints=limited) for _ in range(12)]
        await store.append(Batch(QUEUE, "producer", 1, messages))
        claims = [await claim(store, limit) for limit in (4, 4)]
        assert [each.id for some in claims for each in some] == [each.id for each in messages[:8]]
        assert {each.constraints for some in claims for each in some} == {limited}
        assert transactions == []
        assert len(await claim(store, 4)) == 2  # no slot is left, so the line is blocked
        assert len(transactions) == 1
        [record] = await store.limits()
        assert (record.running, record.waiting) == (10, 2)
    finally:
        await store.close()


async def claim(store: Store, limit: int) -> list[Claim]:
    return await store.claim([QUEUE], consumer="worker", limit=limit, suspects=1, wait=0)


def is_waiting(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(IS_WAITING).fetchone()
    return found is not None and found[0] > 0
