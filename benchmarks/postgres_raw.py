"""The limit of PostgreSQL on this machine: bare SQL by hand, in batches of 500.

One table with an id, a mark and a body. A batch is one statement to append, one to claim and one to delete.
There is no retry, no fencing, no count, no priority. The client is the one that ours has: psycopg, binary,
prepared.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor

from headrace.core.messages.message import Envelope, decode_envelope, encode_envelope

#: Jobs in a batch.
BATCH = 500

TABLE = """
DROP TABLE IF EXISTS jobs;
CREATE TABLE jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    running boolean NOT NULL DEFAULT false,
    body bytea NOT NULL);
CREATE INDEX jobs_waiting ON jobs (id) WHERE NOT running
"""

APPEND = b"INSERT INTO jobs (body) SELECT unnest($1::bytea[])"

CLAIM = b"""
UPDATE jobs SET running = true
WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE NOT running ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING id, body
"""

DELETE = b"DELETE FROM jobs WHERE id = ANY ($1::bigint[])"


async def raw_limit(url: str, scale: float) -> dict[str, float]:
    """Single inserts, inserts in batches, and a drain by hand."""
    connection = await AsyncConnection.connect(
        url, autocommit=True, prepare_threshold=2, cursor_factory=AsyncRawCursor
    )
    async with connection:
        await connection.execute(TABLE)
        cursor = connection.cursor(binary=True)
        figures = await _singles(cursor, max(10, int(3_000 * scale)))
        await _drain(cursor)
        return figures | await _bulk_and_drain(cursor, max(10, int(50_000 * scale)))


def _body() -> bytes:
    return encode_envelope(
        Envelope(1, "01m7f9vj79fnjrwh4myfs88p3r", "noop", time.time_ns() // 1000, None, None, b"\x91\x90")
    )


async def _singles(cursor: AsyncCursor[Any], number: int) -> dict[str, float]:
    began = time.perf_counter()
    for _ in range(number):
        await cursor.execute(APPEND, ([_body()],))
    return {"enqueue one by one": number / (time.perf_counter() - began)}


async def _bulk_and_drain(cursor: AsyncCursor[Any], number: int) -> dict[str, float]:
    began = time.perf_counter()
    for start in range(0, number, BATCH):
        await cursor.execute(APPEND, ([_body() for _ in range(min(BATCH, number - start))],))
    enqueued = number / (time.perf_counter() - began)
    began = time.perf_counter()
    drained = await _drain(cursor)
    assert drained == number
    return {"enqueue_many": enqueued, "drain no-op": number / (time.perf_counter() - began)}


async def _handler(args: tuple[Any, ...]) -> None:
    pass


async def _drain(cursor: AsyncCursor[Any]) -> int:
    decode_args = msgspec.msgpack.Decoder(tuple[tuple[()]]).decode
    total = 0
    while True:
        await cursor.execute(CLAIM, (BATCH,))
        rows = await cursor.fetchall()
        if not rows:
            return total
        for _, body in rows:
            await _handler(decode_args(decode_envelope(body).payload))
        await cursor.execute(DELETE, ([id for id, _ in rows],))
        total += len(rows)
