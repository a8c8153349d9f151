"""Damaged lines, order keys and counts of limits: jobs with limits go on."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.support.damaged_postgres import PostgresTables
from tests.integration.support.damaged_redis import RedisStore
from tests.integration.support.damaged_store import check
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Fleet, also

LIMITS = b"{headrace:limits}:"


@pytest.mark.parametrize("kind", ["valkey-9.1", *also("redis-7.0")])
async def test_keys_of_the_wrong_type_are_made_anew(servers: Fleet, kind: str) -> None:
    store = RedisStore(servers.get(kind))
    await store.make()
    for key in store.derived():
        store.ask("DEL", key)
        store.ask("RPUSH", key, "odd")
    await check(store.url, structural=False)
    store.close()


async def test_numbers_that_nobody_means_limit_nothing(servers: Fleet) -> None:
    store = RedisStore(servers.get("redis-7.0"))
    await store.make()
    for command in (
        ("HSET", LIMITS + b"figures", "healthy-limit", "1 0 0 0"),
        ("HSET", LIMITS + b"figures", "victim-limit", "nan nan nan nan"),
        ("HSET", LIMITS + b"overrides", "victim-limit", "5 1 9e15 9e15"),
        ("SET", LIMITS + b"runs/healthy-limit/", "99999999999999999999"),
        ("SET", LIMITS + b"next/victim-limit/", "nan"),
        ("HSET", b"{headrace:q:work}:meta", "places", "nan", "turns", "inf"),
    ):
        store.ask(*command)
    await check(store.url, structural=False)
    store.close()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


async def test_postgresql_refuses_rows_that_would_stop_others(server: PostgresServer) -> None:
    tables = PostgresTables(server)
    await tables.make()
    tables.renew()
    with psycopg.connect(tables.url, autocommit=True) as connection:
        for statement in (
            b"UPDATE headrace.limits SET declared = '-1'",
            b"UPDATE headrace.limits SET override = ''",
            b"UPDATE headrace.constraints SET content = '{'",
            b"""UPDATE headrace.constraints SET content = '[[["a"]],""]'""",
            b"""UPDATE headrace.constraints SET content = '[[],"\\u0000"]'""",
            b"UPDATE headrace.lines SET waiting = 9223372036854775807",
            b"UPDATE headrace.tenants SET turn = 9223372036854775807",
            b"UPDATE headrace.budgets SET running = -9223372036854775808",
        ):
            with pytest.raises((psycopg.IntegrityError, psycopg.DataError)):
                connection.execute(statement)
        connection.execute("UPDATE headrace.limits SET declared = '{}', override = '{\"name\": 3}'")
    await check(tables.url, structural=False)
