"""Steps with limits that meet in time."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from headrace.core.messages.constraints import Constraints
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.runtime.clock import SECOND, MovableClock
from headrace.stores import open_store
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


def is_waiting(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(IS_WAITING).fetchone()
    return found is not None and found[0] > 0
