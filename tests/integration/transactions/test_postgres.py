"""`transaction=` on PostgreSQL with every library: into the store itself, and through an outbox."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace import App, ConfigurationError, DuplicateJob, Job, JobStatus, QueueFull
from headrace.core.messages.ids import new_id
from headrace.stores.outbox import schema_of
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


class OrderPlaced(msgspec.Struct):
    order_id: int


@pytest.fixture(params=["store", "outbox"])
async def app(server: PostgresServer, request: pytest.FixtureRequest) -> AsyncIterator[App]:
    """An app whose store is the user's database, or one with an outbox there."""
    namespace = new_id()
    app = (
        App(server.url, namespace=namespace)
        if request.param == "store"
        else App("memory://", outbox=server.url, namespace=namespace)
    )
    app.charged = []  # type: ignore[attr-defined]

    @app.task(name="charge")
    async def charge(order: int) -> int:
        app.charged.append(order)  # type: ignore[attr-defined]
        return order

    yield app
    await app.close()


async def charged(app: App) -> list[int]:
    """The orders that are charged when all jobs have run."""
    await app.worker(concurrency=1).run(burst=True)
    return app.charged  # type: ignore[attr-defined, no-any-return]


def call(app: App, order: int) -> Any:
    return app.tasks["charge"].call(order)


INSERT = "INSERT INTO orders VALUES (7)"


# --- libraries ---------------------------------------------------------------------------------------------


async def test_psycopg(app: App, server: PostgresServer) -> None:
    async with await psycopg.AsyncConnection.connect(
        server.url, row_factory=psycopg.rows.dict_row
    ) as connection:
        async with connection.transaction():
            await connection.execute(INSERT)
            job = await app.enqueue(call(app, 1), transaction=connection)
            with suppress(LookupError):
                async with connection.transaction():
                    await app.enqueue(call(app, 2), transaction=connection)
                    raise LookupError
        with suppress(LookupError):
            async with connection.transaction():
                await app.enqueue_many([call(app, 3), call(app, 4)], transaction=connection)
                raise LookupError
        with pytest.raises(ConfigurationError, match="no open transaction"):
            await app.enqueue(call(app, 5), transaction=connection)
    assert not job.duplicate
    async with app.worker():
        assert await job.result(timeout=60) == 1
    assert await charged(app) == [1]


async def test_psycopg_without_an_event_loop(app: App, server: PostgresServer) -> None:
    def work() -> None:
        with psycopg.connect(server.url) as connection:
            connection.execute(INSERT)
            app.sync.enqueue(call(app, 1), transaction=connection)
            app.sync.enqueue_many([call(app, 2), call(app, 3)], transaction=connection)
            with suppress(LookupError), connection.transaction():
                app.sync.enqueue(call(app, 5), transaction=connection)
                raise LookupError
            connection.commit()
            connection.execute(INSERT)
            app.sync.enqueue(call(app, 4), transaction=connection)
            connection.rollback()

    await asyncio.to_thread(work)
    assert await charged(app) == [1, 2, 3]


async def test_asyncpg(app: App, server: PostgresServer) -> None:
    async with asyncpg.create_pool(server.url, min_size=1, max_size=2) as pool, pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute(INSERT)
            await app.enqueue(call(app, 1), transaction=connection)
            with suppress(LookupError):
                async with connection.transaction():
                    await app.enqueue(call(app, 4), transaction=connection)
                    raise LookupError
            await app.tasks["charge"].with_(transaction=connection, delay=0.001).enqueue(2)
        with suppress(LookupError):
            async with connection.transaction():
                await app.enqueue(call(app, 3), transaction=connection)
                raise LookupError
    assert await charged(app) == [1, 2]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_sqlalchemy(app: App, server: PostgresServer, driver: str) -> None:
    url = server.url.replace("postgresql://", f"postgresql+{driver}://")
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text(INSERT))
        await app.enqueue(call(app, 1), transaction=connection)
    async with AsyncSession(engine) as session, session.begin():
        await app.enqueue(call(app, 2), transaction=session)
        await session.run_sync(lambda inner: app.sync.enqueue(call(app, 3), transaction=inner))
        savepoint = await session.begin_nested()
        await app.enqueue(call(app, 4), transaction=session)
        await savepoint.rollback()
    await engine.dispose()
    assert await charged(app) == [1, 2, 3]


async def test_sqlalchemy_without_an_event_loop(app: App, server: PostgresServer) -> None:
    def work() -> None:
        engine = create_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            app.sync.enqueue(call(app, 1), transaction=connection)
            savepoint = connection.begin_nested()
            app.sync.enqueue(call(app, 4), transaction=connection)
            savepoint.rollback()
        with Session(engine) as session:
            session.execute(text(INSERT))
            app.sync.enqueue(call(app, 2), transaction=session)
            session.rollback()
            session.execute(text(INSERT))
            app.sync.enqueue(call(app, 3), transaction=session)
            session.commit()
        engine.dispose()

    await asyncio.to_thread(work)
    assert await charged(app) == [1, 3]


DJANGO = """
import sys
import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
words = conninfo_to_dict(sys.argv[1])
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": words["dbname"], "USER": words["user"],
    "HOST": words["host"], "PORT": words["port"]}}, USE_TZ=True)
django.setup()
from django.db import connection, transaction
from headrace import App

url = sys.argv[1]
app = App(url, namespace=sys.argv[3]) if sys.argv[2] == "store" else App(
    "memory://", outbox=url, namespace=sys.argv[3])

@app.task(name="charge")
async def charge(order: int) -> None: ...

with transaction.atomic():
    app.sync.enqueue(charge.call(1), transaction=connection)
    try:
        with transaction.atomic():
            app.sync.enqueue(charge.call(2), transaction=connection)
            raise LookupError
    except LookupError:
        pass
"""


async def test_django(app: App, server: PostgresServer) -> None:
    kind = "store" if app._outbox is None else "outbox"
    command = [sys.executable, "-c", DJANGO, server.url, kind, _namespace(app)]
    ended = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert await charged(app) == [1]


def _namespace(app: App) -> str:
    namespace: str = (app._outbox or app._app_loop.backend.store)._namespace  # type: ignore[union-attr]
    return namespace


async def test_many_jobs_of_a_transaction_run_in_order(app: App, server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url)
    async with connection.transaction():
        jobs = await app.enqueue_many([call(app, n) for n in range(250)], transaction=connection)
    await connection.close()
    assert len({job.id for job in jobs}) == 250
    assert await charged(app) == list(range(250))


# --- what holds on both ways -------------------------------------------------------------------------------


async def test_events_are_published_after_the_commit_in_their_order(app: App, server: PostgresServer) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event.order_id)

    async with await psycopg.AsyncConnection.connect(server.url) as held, app.worker(concurrency=1):
        await held.execute("SELECT 1")
        await orders.publish(OrderPlaced(1), key="customer-3", transaction=held)
        # A transaction that stays open delays only its own event.
        await orders.publish(OrderPlaced(2))
        await wait_until(lambda: seen == [2], timeout=60)
        await held.commit()
        await wait_until(lambda: seen == [2, 1], timeout=60)


async def test_an_event_of_a_transaction_comes_into_the_log_without_a_subscriber(
    app: App, server: PostgresServer
) -> None:
    orders = app.topic("orders", OrderPlaced)
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        await orders.publish(OrderPlaced(1), transaction=connection)
    await app.worker().run(burst=True)
    [topic] = await app.admin.topics()
    assert topic.length == 1


async def test_limits_and_order_hold_for_jobs_of_a_transaction(app: App, server: PostgresServer) -> None:
    running: set[int] = set()
    most = 0
    seen: list[tuple[str, int]] = []

    @app.task(name="alone", max_running=1)
    async def alone(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(number)

    @app.task(name="in_order", ordered_by="account")
    async def in_order(account: str, number: int) -> None:
        seen.append((account, number))

    calls = [alone.call(number) for number in range(10)]
    calls += [in_order.call(account, number) for number in range(5) for account in ("a", "b")]
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        await app.enqueue_many(calls, transaction=connection)
    await app.worker().run(burst=True)
    assert most == 1
    assert [number for account, number in seen if account == "a"] == list(range(5))
    assert [number for account, number in seen if account == "b"] == list(range(5))
    assert [limit.waiting for limit in await app.admin.limits()] == [0]


# --- the store itself --------------------------------------------------------------------------------------


@pytest.fixture
async def own(server: PostgresServer) -> AsyncIterator[App]:
    app = App(server.url, namespace=new_id())
    app.task(name="charge")(_charge)
    yield app
    await app.close()


async def _charge(order: int) -> int:
    return order


async def test_an_enqueue_with_a_unique_key_waits_for_the_transaction_that_holds_it(
    own: App, server: PostgresServer
) -> None:
    task = own.tasks["charge"].with_(unique_key="order-7")
    async with (
        await psycopg.AsyncConnection.connect(server.url) as one,
        await psycopg.AsyncConnection.connect(server.url) as another,
    ):
        await one.execute("SELECT 1")
        await another.execute("SELECT 1")
        first = await task.with_(transaction=one).enqueue(1)
        waiting = asyncio.create_task(task.with_(transaction=another).enqueue(2))
        await wait_until(lambda: _is_waiting(server), timeout=60)
        assert not waiting.done()
        await one.commit()
        second = await waiting
        assert (second.id, second.duplicate) == (first.id, True)
        await another.rollback()
    assert await first.status() is JobStatus.QUEUED


async def test_a_duplicate_in_an_open_transaction_does_not_hold_up_the_job_that_has_the_key(
    server: PostgresServer,
) -> None:
    app = App(server.url, namespace=new_id())
    gate = asyncio.Event()

    @app.task(name="charge", unique=True)
    async def charge() -> int:
        await gate.wait()
        return 7

    async with await psycopg.AsyncConnection.connect(server.url) as held, app.worker():
        job = await charge.enqueue()
        await wait_until(lambda: _is_running(job))
        await held.execute(INSERT)
        assert (await app.enqueue(charge.call(), transaction=held)).duplicate
        gate.set()
        assert await job.result(timeout=20) == 7
    await app.close()


async def test_a_duplicate_that_waited_does_not_hold_up_the_job_that_has_the_key(
    own: App, server: PostgresServer
) -> None:
    task = own.tasks["charge"].with_(unique_key="order-10")
    async with (
        await psycopg.AsyncConnection.connect(server.url) as one,
        await psycopg.AsyncConnection.connect(server.url) as another,
    ):
        await one.execute(INSERT)
        await another.execute(INSERT)
        first = await task.with_(transaction=one).enqueue(7)
        waiting = asyncio.create_task(task.with_(transaction=another).enqueue(8))
        await wait_until(lambda: _is_waiting(server), timeout=60)
        await one.commit()
        assert (await waiting).duplicate
        async with own.worker():
            assert await first.result(timeout=20) == 7


async def test_a_job_that_replaces_a_running_one_in_an_open_transaction_does_not_hold_it_up(
    server: PostgresServer,
) -> None:
    app = App(server.url, namespace=new_id())
    gate = asyncio.Event()

    @app.task(name="charge", unique=True, on_duplicate="replace")
    async def charge() -> int:
        await gate.wait()
        return 7

    async with await psycopg.AsyncConnection.connect(server.url) as held, app.worker():
        job = await charge.enqueue()
        await wait_until(lambda: _is_running(job))
        await held.execute(INSERT)
        second = await app.enqueue(charge.call(), transaction=held)
        assert second.id != job.id
        gate.set()
        assert await job.result(timeout=20) == 7
        await held.commit()
        assert await second.result(timeout=20) == 7
    await app.close()


def _is_waiting(server: PostgresServer) -> bool:
    """Whether a statement waits for a lock."""
    with psycopg.connect(server.url) as witness:
        found = witness.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return found is not None and found[0] > 0


async def _is_running(job: Job[int]) -> bool:
    return await job.status() is JobStatus.RUNNING


async def test_a_limited_job_in_an_open_transaction_holds_up_no_other(server: PostgresServer) -> None:
    app = App(server.url, namespace=new_id())

    @app.task(name="charge", max_running=1)
    async def charge(number: int) -> int:
        return number

    async with await psycopg.AsyncConnection.connect(server.url) as held, app.worker():
        await held.execute(INSERT)
        last = await app.enqueue(charge.call(2), transaction=held)
        assert await (await charge.enqueue(1)).result(timeout=20) == 1
        await held.commit()
        assert await last.result(timeout=20) == 2
    await app.close()


async def test_an_enqueue_that_waits_for_a_transaction_does_not_hold_up_limited_jobs(
    server: PostgresServer,
) -> None:
    namespace = new_id()
    app, producer = App(server.url, namespace=namespace), App(server.url, namespace=namespace)
    for each in (app, producer):
        each.task(name="charge", max_running=1)(_charge)
    keyed = producer.tasks["charge"].with_(unique_key="order-9")
    async with await psycopg.AsyncConnection.connect(server.url) as held, app.worker():
        await held.execute(INSERT)
        first = await keyed.with_(transaction=held, delay=600).enqueue(1)  # it keeps its key
        waiting = asyncio.create_task(keyed.enqueue(2))
        for number in range(5):
            assert await (await app.enqueue(call(app, number))).result(timeout=20) == number
        assert not waiting.done()
        await held.commit()
        second = await waiting
        assert (second.id, second.duplicate) == (first.id, True)
    await app.close()
    await producer.close()


async def test_a_key_whose_transaction_was_rolled_back_is_free(own: App, server: PostgresServer) -> None:
    task = own.tasks["charge"].with_(unique_key="order-8")
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute("SELECT 1")
        await task.with_(transaction=connection).enqueue(1)
        await connection.rollback()
        await connection.execute("SELECT 1")
        job = await task.with_(transaction=connection).enqueue(2)
        again = await task.with_(transaction=connection).enqueue(3)
        assert (job.duplicate, again.duplicate, again.id) == (False, True, job.id)
        await connection.commit()
    assert not (await own.admin.queues())[0].running
    assert (await own.admin.queues())[0].queued == 1


async def test_many_jobs_change_the_counts_of_their_queue_a_few_times(
    own: App, server: PostgresServer
) -> None:
    """A row becomes slower with each change in one transaction."""
    changes = (
        "SELECT n_tup_ins + n_tup_upd FROM pg_stat_xact_user_tables WHERE relid = 'headrace.counts'::regclass"
    )
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute(INSERT)
        await own.enqueue_many([call(own, order) for order in range(250)], transaction=connection)
        row = await (await connection.execute(changes)).fetchone()
        assert row is not None
        assert row[0] <= 3
    [queue] = await own.admin.queues()
    assert queue.queued == 250


async def test_counts_of_many_connections_are_added_up(own: App, server: PostgresServer) -> None:
    async def enqueue(connection: psycopg.AsyncConnection) -> None:
        await connection.execute(INSERT)
        for name in ("one", "two"):
            await own.tasks["charge"].with_(queue=name, transaction=connection).enqueue(1)

    await own.open()
    for _ in range(3):
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            await enqueue(connection)
    store = own._app_loop.backend.store
    async with await psycopg.AsyncConnection.connect(server.url) as held:
        await enqueue(held)
        await store.prune(limit=100)
        assert await _counted_apart(store, server) == 0
        await held.commit()
    assert await _counted_apart(store, server) == 2
    await store.prune(limit=100)
    assert await _counted_apart(store, server) == 0
    assert {queue.name: queue.queued for queue in await own.admin.queues()} == {"one": 4, "two": 4}


async def _counted_apart(store: Any, server: PostgresServer) -> int:
    """How many rows of connections of users have counts."""
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM headrace.counts JOIN headrace.streams USING (stream)"
            " WHERE slot < 0 AND namespace = %s",
            (store._namespace,),
        )
        [(count,)] = await cursor.fetchall()
    return int(count)


async def test_the_options_of_a_call_hold(own: App, server: PostgresServer) -> None:
    charge = own.tasks["charge"]
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute("SELECT 1")
        delayed = await charge.with_(delay=3600, transaction=connection).enqueue(1)
        known = await charge.with_(job_id="mine", priority="high", transaction=connection).enqueue(2)
        twice = await charge.with_(job_id="mine", transaction=connection).enqueue(3)
        await connection.commit()
    assert (known.duplicate, twice.duplicate) == (False, True)
    assert await delayed.status() is JobStatus.SCHEDULED
    [queue] = await own.admin.queues()
    assert (queue.queued, queue.scheduled) == (1, 1)
    await own.worker().run(burst=True)
    assert await known.result(timeout=60) == 2
    [queue] = await own.admin.queues()
    assert (queue.queued, queue.running, queue.scheduled) == (0, 0, 1)


async def test_a_job_of_a_transaction_replaces_a_waiting_one_or_raises(
    own: App, server: PostgresServer
) -> None:
    charge = own.tasks["charge"].with_(unique_key="order-7")
    waiting = await charge.with_(delay=3600).enqueue(1)
    replacing = charge.with_(on_duplicate="replace")
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute("SELECT 1")
        jobs = [await replacing.with_(transaction=connection).enqueue(n) for n in (2, 3)]
        await connection.rollback()
        assert await waiting.status() is JobStatus.SCHEDULED
        await connection.execute("SELECT 1")
        jobs += [await replacing.with_(transaction=connection).enqueue(n) for n in (4, 5)]
        with pytest.raises(DuplicateJob) as raised:
            await charge.with_(on_duplicate="raise", transaction=connection).enqueue(6)
        await connection.commit()
    assert {(job.id, job.duplicate) for job in jobs} == {(waiting.id, True)}
    assert raised.value.job.id == waiting.id
    [queue] = await own.admin.queues()
    assert (queue.queued, queue.scheduled) == (1, 0)
    await own.worker().run(burst=True)
    assert await waiting.result(timeout=60) == 5


async def test_a_full_queue_refuses_within_the_transaction(server: PostgresServer) -> None:
    app = App(server.url, namespace=new_id(), queue_limit=1)
    charge = app.task(name="charge")(_charge)
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        await connection.execute("SELECT 1")
        await app.enqueue(charge.call(1), transaction=connection)
        with pytest.raises(QueueFull):
            await app.enqueue(charge.call(2), transaction=connection)
        await connection.commit()
    await app.close()


# --- mistakes ----------------------------------------------------------------------------------------------


async def test_another_database_is_not_known(app: App, server: PostgresServer) -> None:
    name = f"other_{new_id().lower()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    other = psycopg.conninfo.make_conninfo(server.url, dbname=name)
    async with await psycopg.AsyncConnection.connect(other) as stranger:
        await stranger.execute("SELECT 1")
        with pytest.raises(ConfigurationError, match="headrace schema apply"):
            await app.enqueue(call(app, 1), transaction=stranger)
        await stranger.execute("SELECT 1")  # the transaction is as it was
    await schema_of(f"{server.url.rpartition('/')[0]}/{name}")
    async with await psycopg.AsyncConnection.connect(other) as stranger:
        await stranger.execute("SELECT 1")
        with pytest.raises(ConfigurationError, match="does not know"):
            await app.enqueue(call(app, 1), transaction=stranger)
