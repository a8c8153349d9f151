"""Producers are killed with SIGKILL around the commits of their transactions. The user's own table of orders
is the witness: a job exists if, and only if, its order is committed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from headrace.stores.outbox import schema_of
from tests.support.postgres_server import PostgresServer
from tests.support.servers import FIRST_KIND, Server, require

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parent.parent / "programs" / "killed_producer.py"

#: As in the program.
UNHARMED = 900_000

#: Kills at lines of Python, and after a random time.
QUICK = {"points": 20, "random": 5}
LONG = {"points": 400, "random": 100}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    with Server(require(FIRST_KIND), directory=tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def postgres(server: PostgresServer) -> str:
    """A database of its own for the user, with a table of orders and the tables of headrace."""
    name = f"shop_{new_id().lower()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{server.url.rpartition('/')[0]}/{name}"
    await schema_of(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE public.orders (id integer)")
    return url


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A SQLite file of the user, with a table of orders and the tables of headrace."""
    file = tmp_path / "shop.db"
    await schema_of(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE orders (id integer)")
    return file


def orders_in_postgres(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return sorted(order for (order,) in connection.execute("SELECT id FROM orders"))


def orders_in_sqlite(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        return sorted(order for (order,) in connection.execute("SELECT id FROM orders"))


async def check(given: dict[str, Any], committed: Callable[[], list[int]]) -> None:
    """Kill producers, then run all jobs. A job for each committed order ran once, and no other."""
    given = {"namespace": new_id(), "outbox": None, **given}
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), json.dumps(given))
    assert await process.wait() == 0
    orders = committed()
    app = App(given["store"], outbox=given["outbox"], namespace=given["namespace"])
    charged: list[int] = []

    @app.task(name="charge")
    async def charge(order: int) -> None:
        charged.append(order)

    async with app:
        await app.worker().run(burst=True)
        [queue] = await app.admin.queues()
    assert sorted(charged) == orders
    assert (queue.queued, queue.scheduled, queue.running, queue.dead) == (0, 0, 0, 0)
    # One producer was not killed. The kills met both sides of the commit.
    at_lines = sum(order < UNHARMED for order in orders)
    assert UNHARMED in orders
    assert 0 < at_lines < given["points"] + 12
    assert len(orders) >= at_lines + 1 + given["random"]


LONG_FORM = pytest.param(LONG, id="long", marks=pytest.mark.more)
FORMS = [pytest.param(QUICK, id="quick"), LONG_FORM]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "library",
    ["psycopg", *[pytest.param(name, marks=pytest.mark.more) for name in ("asyncpg", "sqlalchemy")]],
)
async def test_the_store_is_the_database_of_the_user(
    postgres: str, library: str, form: dict[str, int]
) -> None:
    given = {"store": postgres, "database": postgres, "library": library, **form}
    await check(given, lambda: orders_in_postgres(postgres))


@pytest.mark.parametrize("form", [LONG_FORM])
async def test_redis_with_an_outbox_in_postgresql(redis: Server, postgres: str, form: dict[str, int]) -> None:
    given = {"store": redis.url, "outbox": postgres, "database": postgres, "library": "asyncpg", **form}
    await check(given, lambda: orders_in_postgres(postgres))


@pytest.mark.parametrize("form", FORMS)
async def test_redis_with_an_outbox_in_sqlite(redis: Server, file: Path, form: dict[str, int]) -> None:
    url = f"sqlite:///{file}"
    given = {"store": redis.url, "outbox": url, "database": str(file), "library": "sqlite3", **form}
    await check(given, lambda: orders_in_sqlite(file))


@pytest.mark.parametrize("form", [LONG_FORM])
async def test_sqlite_with_an_outbox_in_postgresql(
    tmp_path: Path, postgres: str, form: dict[str, int]
) -> None:
    store = f"sqlite:///{tmp_path}/jobs.db"
    given = {"store": store, "outbox": postgres, "database": postgres, "library": "psycopg", **form}
    await check(given, lambda: orders_in_postgres(postgres))


@pytest.mark.parametrize("form", [LONG_FORM])
async def test_sqlite_with_an_outbox_in_another_file(
    tmp_path: Path, file: Path, form: dict[str, int]
) -> None:
    store, url = f"sqlite:///{tmp_path}/jobs.db", f"sqlite:///{file}"
    given = {"store": store, "outbox": url, "database": str(file), "library": "aiosqlite", **form}
    await check(given, lambda: orders_in_sqlite(file))
