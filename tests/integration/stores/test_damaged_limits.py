"""Damaged lines, order keys and counts of limits: jobs with limits go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import apsw
import psycopg
import pytest

from headrace import App, JobStatus
from tests.integration.support.damaged_postgres import PostgresTables
from tests.integration.support.damaged_redis import RedisStore
from tests.integration.support.damaged_store import check
from tests.support.postgres_server import PostgresServer
from tests.support.servers import Fleet, also
from tests.support.waiting import wait_until

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
            b"UPDATE headrace.budgets SET budget = 0 WHERE name = 'victim-customer'",
        ):
            with pytest.raises((psycopg.IntegrityError, psycopg.DataError)):
                connection.execute(statement)
        connection.execute("UPDATE headrace.limits SET declared = '{}', override = '{\"name\": 3}'")
    await check(tables.url, structural=False)


# --- a row that names another queue than its constraints -------------------------------------------------

OTHER_QUEUE = "(SELECT stream FROM {prefix}streams WHERE name = 'elsewhere')"


@pytest.mark.parametrize("number", [OTHER_QUEUE, "0"], ids=["another", "none"])
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_job_in_another_queue_than_its_limits_stops_no_claims(
    store: str, number: str, jobs: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, prefix, run = _database(store, tmp_path, request)
    app, seen = App(url), list[int]()

    @app.task(queue="work", max_running=2)
    async def limited(number: int) -> None:
        seen.append(number)

    @app.task(queue="elsewhere")
    async def other() -> None: ...

    await other.enqueue()
    damaged = await limited.enqueue(1)
    for more in range(2, jobs + 1):
        await limited.enqueue(more)
    await asyncio.to_thread(
        run,
        f"UPDATE {prefix}messages SET stream = {number.format(prefix=prefix)} WHERE id = '{damaged.id}'",
    )
    async with app.worker(queues=["work"]):
        await wait_until(lambda: len(seen) == jobs - 1)
        assert await (await limited.enqueue(9)).wait(timeout=8) is JobStatus.SUCCEEDED
        if number == OTHER_QUEUE:
            await wait_until(lambda: _is_dead(app, damaged.id))
        [limit] = await app.admin.limits()
        assert (limit.running, limit.waiting) == (0, 0)
    assert sorted(seen) == [*range(2, jobs + 1), 9]
    await app.close()


@pytest.mark.parametrize(
    "change", ["constraints = 999", "staged = '{'", """staged = '[[["\\u0000",""]],""]'"""], ids=str
)
async def test_limits_of_a_waiting_job_that_nobody_declared_keep_no_others_from_being_promoted(
    tmp_path: Path, request: pytest.FixtureRequest, change: str
) -> None:
    url, prefix, run = _database("postgresql", tmp_path, request)
    app, seen = App(url), list[int]()

    @app.task
    async def later(number: int) -> None:
        seen.append(number)

    damaged = await later.with_(delay=0.01).enqueue(1)
    await asyncio.to_thread(run, f"UPDATE {prefix}messages SET {change} WHERE id = '{damaged.id}'")
    await later.with_(delay=0.01).enqueue(2)
    async with app.worker():
        await wait_until(lambda: 2 in seen)
        await (await later.with_(delay=0.01).enqueue(3)).wait(timeout=8)
    assert 3 in seen
    await app.close()


async def test_a_tenant_that_cannot_be_read_stops_no_claims(tmp_path: Path) -> None:
    app, seen = App(f"sqlite:///{tmp_path}/jobs.db"), list[str]()

    @app.task(max_running=1, tenant_by="tenant")
    async def limited(tenant: str) -> None:
        seen.append(tenant)
        if len(seen) == 1:
            await asyncio.to_thread(damage)

    def damage() -> None:
        with apsw.Connection(f"{tmp_path}/jobs.db") as connection:
            connection.execute("UPDATE headrace_lines SET tenant = CAST(x'ff' AS TEXT)")

    for tenant in "aba":
        await limited.enqueue(tenant)
    async with app.worker():
        await wait_until(lambda: len(seen) == 3)
        assert await (await limited.enqueue("c")).wait(timeout=8) is JobStatus.SUCCEEDED
    await app.close()


async def _is_dead(app: App, id: str) -> bool:
    return id in [letter.id for letter in await app.admin.dead(queue="elsewhere")]


def _database(
    store: str, folder: Path, request: pytest.FixtureRequest
) -> tuple[str, str, Callable[[str], None]]:
    """Where the store is, what its tables begin with, and how to run a statement."""
    if store == "sqlite":
        file = folder / "jobs.db"

        def run_on_file(statement: str) -> None:
            with apsw.Connection(str(file)) as connection:
                connection.execute(statement)

        return f"sqlite:///{file}", "headrace_", run_on_file
    server: PostgresServer = request.getfixturevalue("server")
    name = f"d{uuid4().hex}"

    def run(statement: str, url: str = server.url.replace("/postgres", f"/{name}")) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    run(f"CREATE DATABASE {name}", server.url)
    return server.url.replace("/postgres", f"/{name}"), "headrace.", run
