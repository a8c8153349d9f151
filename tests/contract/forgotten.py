"""What the stores of headrace must have forgotten once all messages are over: a look into their data."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import apsw

from headrace.core.messages.message import Stream
from headrace.core.store import Store
from headrace.stores.postgres.session.connection import PostgresConnection, Row
from headrace.stores.postgres.store import PostgresStore
from headrace.stores.redis.client.connection import pack
from headrace.stores.redis.keys import GROUP, HELD, LANES
from headrace.stores.redis.store import RedisStore
from headrace.stores.sqlite.store import SqliteStore
from headrace.testing.contract.kit.heartbeats import leave
from tests.support.permanent_keys import is_permanent

#: The tables of messages and of what belongs to one.
TABLES: Final = ("messages", "unique_keys", "producers", "progress", "outgoing")

HISTORY_TABLE: Final = "history"

#: The tables of limits and lines.
LIMIT_TABLES: Final = ("constraints", "lines", "tenants", "budgets")


async def check_forgotten(store: Store) -> None:
    if isinstance(store, RedisStore):
        await _check_redis(store)
    elif isinstance(store, SqliteStore):
        _check_sqlite(store)
    elif isinstance(store, PostgresStore):
        await _check_postgres(store)


def _check_sqlite(backend: SqliteStore) -> None:
    connection = apsw.Connection(str(backend._path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for table in (*TABLES, *LIMIT_TABLES, HISTORY_TABLE):
            assert connection.execute(f"SELECT * FROM headrace_{table}").fetchall() == [], f"in {table}"
        counted = connection.execute("SELECT * FROM headrace_history_sizes WHERE entries OR size")
        assert counted.fetchall() == []
    finally:
        connection.close()


async def _check_postgres(backend: PostgresStore) -> None:
    async def rows_of(connection: PostgresConnection, table: str) -> list[Row]:
        streams = "stream IN (SELECT stream FROM headrace.streams WHERE namespace = $1)"
        if table == HISTORY_TABLE:  # of which a stream that is gone leaves nothing
            streams += " OR stream NOT IN (SELECT stream FROM headrace.streams)"
        where = "namespace = $1" if table == "budgets" else streams
        return await connection.rows(f"SELECT * FROM headrace.{table} WHERE {where}", (backend._namespace,))

    for table in (*TABLES, *LIMIT_TABLES, HISTORY_TABLE):
        assert await backend._read(partial(rows_of, table=table)) == [], f"in {table}"


# --- Redis -----------------------------------------------------------------------------------------------


async def _check_redis(backend: RedisStore) -> None:
    store = backend._store
    for stream in await backend.streams():
        await _check_consumers(backend, stream)
    keys = await _keys(backend)
    times = await store.commands(*[("PTTL", key) for key in keys]) if keys else []
    lasting = [key.decode() for key, time in zip(keys, times, strict=True) if time == -1]
    assert [key for key in lasting if not is_permanent(key)] == []
    if keys:
        # So that the server stays small over many tests.
        await store.commands(*[("UNLINK", key) for key in keys])


async def _keys(backend: RedisStore) -> list[bytes]:
    """The keys of the store's namespace on all of its servers."""
    keys: list[bytes] = []
    for link in await backend._store.servers():
        [found] = await link.ask(pack(("KEYS", f"*{backend._store.namespace}*")))
        keys += found
    return keys


async def _check_consumers(backend: RedisStore, stream: Stream) -> None:
    """No lane has a waiting or held message. A consumer that leaves is no longer listed."""
    keys = backend._store.queue(stream).keys
    for name, key in zip((*LANES, HELD), (*keys.lanes, keys.by_lane[HELD]), strict=True):
        entries, pending = await _inside(backend, key)
        assert (entries, pending) == (0, 0), f"left in the lane {name} of {stream.name}"
    for consumer in await _consumers(backend, stream):
        await leave(backend, consumer, stream)
    assert await _consumers(backend, stream) == set()


async def _inside(backend: RedisStore, key: bytes) -> tuple[int, int]:
    length = await backend._store.command("XLEN", key)
    return length, sum(group[b"pending"] for group in await _rows(backend, "GROUPS", key))


async def _consumers(backend: RedisStore, stream: Stream) -> set[str]:
    keys = backend._store.queue(stream).keys
    return {
        row[b"name"].decode()
        for key in (*keys.lanes, keys.by_lane[HELD], *keys.tickets.values())
        if await _rows(backend, "GROUPS", key)
        for row in await _rows(backend, "CONSUMERS", key, GROUP)
    }


async def _rows(backend: RedisStore, *words: Any) -> list[dict[bytes, Any]]:
    """An answer of XINFO; nothing of a stream that was never made."""
    if not await backend._store.command("EXISTS", words[1]):
        return []
    rows = await backend._store.command("XINFO", *words)
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
