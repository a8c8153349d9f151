from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from headrace.stores.outbox import schema_of
from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The database of a user, with a table of orders and the tables of headrace."""
    with PostgresServer() as server:
        asyncio.run(schema_of(server.url))
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE public.orders (id integer)")
        yield server
