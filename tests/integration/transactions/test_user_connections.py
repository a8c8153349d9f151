"""Connections to PostgreSQL that are unusual, or wrong: what is taken, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from headrace import App, BackendUnavailable, ConfigurationError, HeadraceError, QueueFull
from headrace.core.messages.ids import new_id
from headrace.stores.postgres.schema.schema import script
from tests.integration.support.postgres_steps import execute, new_name, value_of
from tests.support.postgres_server import HOST, POOL_SIZE, Pooler, PostgresServer, free_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

INSERT = "INSERT INTO orders VALUES (7)"


@pytest.fixture(params=["store", "outbox"])
async def app(server: PostgresServer, request: pytest.FixtureRequest) -> AsyncIterator[App]:
    """An app whose store is the user's database, or one with an outbox there."""
    namespace = new_id()
    app = (
        App(server.url, namespace=namespace)
        if request.param == "store"
        else App("memory://", outbox=server.url, namespace=namespace)
    )
    with_task(app)
    yield app
    await app.close()


@pytest.fixture
async def own(server: PostgresServer) -> AsyncIterator[App]:
    app = with_task(App(server.url, namespace=new_id(), queue_limit=2))
    yield app
    await app.close()


def with_task(app: App) -> App:
    app.charged = []  # type: ignore[attr-defined]

    @app.task(name="charge")
    async def charge(order: int) -> None:
        app.charged.append(order)  # type: ignore[attr-defined]

    return app


async def charged(app: App) -> list[int]:
    """The orders that are charged when all jobs have run."""
    await app.worker(concurrency=1).run(burst=True)
    return app.charged  # type: ignore[attr-defined, no-any-return]


def call(app: App, order: int) -> Any:
    return app.tasks["charge"].call(order)


# --- unusual -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [psycopg.AsyncRawCursor, psycopg.AsyncClientCursor])
async def test_a_connection_with_cursors_of_another_kind(
    app: App, server: PostgresServer, factory: Any
) -> None:
    async with await psycopg.AsyncConnection.connect(server.url, cursor_factory=factory) as connection:
        await connection.execute(INSERT)
        await app.enqueue(call(app, 1), transaction=connection)
    assert await charged(app) == [1]


async def test_a_connection_in_a_pipeline(app: App, server: PostgresServer) -> None:
    async with await psycopg.AsyncConnection.connect(server.url) as connection, connection.pipeline():
        await connection.execute(INSERT)
        await app.enqueue(call(app, 1), transaction=connection)
    assert await charged(app) == [1]


async def test_a_connection_on_which_a_backslash_escapes_in_strings(app: App, server: PostgresServer) -> None:
    options = "-c standard_conforming_strings=off"
    async with await psycopg.AsyncConnection.connect(server.url, options=options) as connection:
        await connection.execute(INSERT)
        await app.enqueue(call(app, 1), transaction=connection)
    assert await charged(app) == [1]


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_a_transaction_with_a_stricter_isolation(app: App, server: PostgresServer, level: str) -> None:
    connection = await asyncpg.connect(server.url)
    async with connection.transaction(isolation=level):
        await connection.execute(INSERT)
        await app.enqueue(call(app, 1).with_(unique_key="order-1"), transaction=connection)
    await connection.close()
    assert await charged(app) == [1]


def render() -> None: ...


async def test_a_transaction_with_the_first_job_of_a_queue_holds_up_no_other(
    own: App, server: PostgresServer
) -> None:
    render_task = own.task(name="render", run_in="process")(render)
    async with await psycopg.AsyncConnection.connect(server.url) as held:
        await held.execute(INSERT)
        await own.enqueue_many([call(own, 1), render_task.call().with_(queue="reports")], transaction=held)
        async with asyncio.timeout(20):
            await own.enqueue(call(own, 2))
            await own.worker(queues=["default", "reports"]).run(burst=True)
        assert own.charged == [2]  # type: ignore[attr-defined]
        await held.commit()
    assert sorted(await charged(own)) == [1, 2]


@pytest.mark.parametrize("kind", ["store", "outbox"])
async def test_tables_that_were_made_anew_are_recognised(server: PostgresServer, kind: str) -> None:
    schema = new_name("anew")
    url = f"{server.url}?schema={schema}"
    await execute(server, script(schema))
    app = with_task(App(url) if kind == "store" else App("memory://", outbox=url))
    try:
        for order in (1, 2):
            async with await psycopg.AsyncConnection.connect(server.url) as connection:
                await connection.execute(INSERT)
                await app.enqueue(call(app, order), transaction=connection)
            if order == 1:
                await execute(server, f"DROP SCHEMA {schema} CASCADE; {script(schema)}")
        assert await charged(app) == [2]
    finally:
        await app.close()


@pytest.mark.parametrize("kind", ["store", "outbox"])
async def test_transactions_that_have_all_connections_of_a_pooler_can_enqueue(
    server: PostgresServer, kind: str
) -> None:
    namespace = new_id()
    with Pooler(server) as pooler:
        url, outbox = (pooler.url, None) if kind == "store" else ("memory://", pooler.url)
        async with with_task(App(url, outbox=outbox, namespace=namespace)) as app:
            await app.enqueue(call(app, 0))  # a new queue needs one more connection
            async with AsyncExitStack() as stack:
                connections = [await psycopg.AsyncConnection.connect(pooler.url) for _ in range(POOL_SIZE)]
                for connection in connections:
                    await stack.enter_async_context(connection)
                    await connection.execute(INSERT)
                for order, connection in enumerate(connections, 1):
                    await app.enqueue(call(app, order), transaction=connection)
            assert sorted(await charged(app)) == list(range(POOL_SIZE + 1))


async def test_the_outbox_takes_jobs_while_the_store_is_away(server: PostgresServer) -> None:
    away = f"postgresql://nobody@{HOST}:{free_port()}/postgres"
    namespace = new_id()
    app = with_task(App(away, outbox=server.url, namespace=namespace))
    alone = with_task(App(away))
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        await app.enqueue(call(app, 1), transaction=connection)
        with pytest.raises(BackendUnavailable):  # it cannot know whose database this is
            await alone.enqueue(call(alone, 1), transaction=connection)
    sql = f"SELECT count(*) FROM headrace.headrace_outbox WHERE namespace = '{namespace}'"
    assert await value_of(server, sql) == 1


# --- wrong -------------------------------------------------------------------------------------------------


async def test_a_synchronous_connection_is_refused_by_the_asynchronous_forms(
    app: App, server: PostgresServer
) -> None:
    orders = app.topic("orders", int)
    with psycopg.connect(server.url) as connection:
        connection.execute(INSERT)
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: app.enqueue(call(app, 1), transaction=connection),
            lambda: app.enqueue_many([call(app, 1)], transaction=connection),
            lambda: app.tasks["charge"].with_(transaction=connection).enqueue(1),
            lambda: orders.publish(1, transaction=connection),
            lambda: orders.publish_many([1], transaction=connection),
        ]
        for each in calls:
            with pytest.raises(ConfigurationError, match=r"would block the event loop: use .* app\.sync"):
                await each()
        app.sync.enqueue(call(app, 2), transaction=connection)
    assert await charged(app) == [2]


async def test_an_asynchronous_connection_is_refused_by_the_synchronous_forms(
    app: App, server: PostgresServer
) -> None:
    connection = await asyncpg.connect(server.url)
    async with connection.transaction():
        with pytest.raises(ConfigurationError, match="asynchronous: await"):
            app.sync.enqueue(call(app, 1), transaction=connection)
        await app.enqueue(call(app, 2), transaction=connection)  # it is as it was
    await connection.close()
    assert await charged(app) == [2]


@pytest.mark.parametrize("where", ["engine", "connection"])
async def test_sqlalchemy_that_commits_each_statement_is_refused(
    app: App, server: PostgresServer, where: str
) -> None:
    url = server.url.replace("postgresql://", "postgresql+psycopg://")
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
    engine = create_engine(url, **options) if where == "engine" else create_engine(url)

    def opened() -> Connection:
        connection = engine.connect()
        return connection if where == "engine" else connection.execution_options(**options)

    with opened() as connection:
        connection.execute(text(INSERT))
        with pytest.raises(ConfigurationError, match="no open transaction"):
            app.sync.enqueue(call(app, 1), transaction=connection)
    engine.dispose()
    other = create_async_engine(url, **options)
    async with AsyncSession(other) as session, session.begin():
        with pytest.raises(ConfigurationError, match="no open transaction"):
            await app.enqueue(call(app, 1), transaction=session)
    await other.dispose()
    assert await charged(app) == []


async def test_a_role_without_rights_learns_which_it_needs(app: App, server: PostgresServer) -> None:
    role = new_name("shop")
    await execute(server, f"CREATE ROLE {role} LOGIN; GRANT INSERT ON orders TO {role}")
    async with await psycopg.AsyncConnection.connect(server.url_as(role)) as connection:
        await connection.execute(INSERT)
        with pytest.raises(ConfigurationError, match=f"GRANT USAGE ON SCHEMA headrace TO {role}"):
            await app.enqueue(call(app, 1), transaction=connection)
        await connection.execute(INSERT)  # the transaction is as it was


async def test_a_failed_transaction_and_a_closed_connection_are_errors_of_the_library(
    app: App, server: PostgresServer
) -> None:
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            await app.enqueue(call(app, 1), transaction=connection)
        await connection.rollback()
        await connection.execute(INSERT)
        await app.enqueue(call(app, 2), transaction=connection)
        await connection.commit()
        await connection.close()
        with pytest.raises(psycopg.OperationalError, match="closed"):
            await app.enqueue(call(app, 3), transaction=connection)
    assert await charged(app) == [2]


async def test_a_key_that_cannot_be_stored_leaves_the_transaction_as_it_was(
    own: App, server: PostgresServer
) -> None:
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        with pytest.raises(HeadraceError, match="NUL"):
            await own.enqueue(call(own, 1).with_(unique_key="a\0b"), transaction=connection)
        await connection.execute(INSERT)


async def test_a_full_queue_names_the_jobs_that_had_room(own: App, server: PostgresServer) -> None:
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        with pytest.raises(QueueFull) as caught:
            await own.enqueue_many([call(own, order) for order in range(4)], transaction=connection)
        await connection.commit()
    assert len(caught.value.accepted) == 2
    assert await charged(own) == [0, 1]
