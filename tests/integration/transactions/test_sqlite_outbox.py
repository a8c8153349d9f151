"""Jobs and events in the user's own transaction, with an outbox in a SQLite file of the user."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import msgspec
import pytest

from headrace import App, ConfigurationError, JobStatus, signals
from headrace.core.messages.message import Stream
from headrace.core.runtime.clock import SystemClock
from headrace.events.event import Published, Refused
from headrace.stores.outbox import sqlite_outbox
from headrace.stores.outbox.sqlite_outbox import SqliteOutbox
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio


class OrderPlaced(msgspec.Struct):
    order_id: int


@pytest.fixture
async def shop(tmp_path: Path) -> Path:
    """The file of a user, with a table of the user and the tables of the outbox."""
    file = tmp_path / "shop.db"
    outbox = SqliteOutbox(f"sqlite:///{file}", namespace="headrace", clock=SystemClock())
    await outbox.apply()
    await outbox.apply()  # any number of times
    await outbox.close()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    return file


@pytest.fixture
async def app(shop: Path) -> AsyncIterator[App]:
    app = App("memory://", outbox=f"sqlite:///{shop}")
    yield app
    await app.close()


@pytest.fixture
def connection(shop: Path) -> sqlite3.Connection:
    return sqlite3.connect(shop)


def charges(app: App) -> list[int]:
    """The task that the tests enqueue, and the orders that it has charged."""
    charged: list[int] = []

    @app.task(name="charge")
    async def charge(order: int) -> int:
        charged.append(order)
        return order

    return charged


def rows_in(shop: Path) -> int:
    with sqlite3.connect(shop) as connection:
        (count,) = connection.execute("SELECT count(*) FROM headrace_outbox").fetchone()
    connection.close()
    return int(count)


async def test_a_job_of_a_committed_transaction_runs(app: App, connection: sqlite3.Connection) -> None:
    charged = charges(app)
    charge = app.tasks["charge"]
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        job = app.sync.enqueue(charge.call(7), transaction=connection)
    assert not job.duplicate
    assert await job.status() is JobStatus.UNKNOWN
    async with app.worker():
        assert await job.result(timeout=30) == 7
    assert charged == [7]


async def test_nothing_remains_of_a_transaction_that_is_rolled_back(
    app: App, connection: sqlite3.Connection, shop: Path
) -> None:
    charges(app)
    connection.execute("INSERT INTO orders VALUES (7)")
    app.sync.enqueue(app.tasks["charge"].call(7), transaction=connection)
    connection.rollback()
    assert rows_in(shop) == 0


async def test_nothing_remains_of_a_savepoint_that_is_rolled_back(
    app: App, connection: sqlite3.Connection, shop: Path
) -> None:
    charged = charges(app)
    charge = app.tasks["charge"]
    connection.execute("INSERT INTO orders VALUES (7)")
    app.sync.enqueue(charge.call(1), transaction=connection)
    connection.execute("SAVEPOINT inner")
    app.sync.enqueue(charge.call(2), transaction=connection)
    connection.execute("ROLLBACK TO inner")
    connection.commit()
    await app.worker().run(burst=True)
    assert charged == [1]
    assert rows_in(shop) == 0


async def test_many_jobs_of_a_transaction_run_in_order(app: App, connection: sqlite3.Connection) -> None:
    charged = charges(app)
    charge = app.tasks["charge"]
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        jobs = app.sync.enqueue_many([charge.call(n) for n in range(1200)], transaction=connection)
        app.sync.enqueue(charge.with_(transaction=connection).call(1200))
    assert len(jobs) == 1200
    await app.worker(concurrency=1).run(burst=True)
    assert charged == list(range(1201))


async def test_events_of_a_transaction_are_published(app: App, connection: sqlite3.Connection) -> None:
    orders = app.topic("orders", OrderPlaced)
    seen: list[int] = []

    @orders.subscribe(group="billing", start="beginning")
    async def bill(event: OrderPlaced) -> None:
        seen.append(event.order_id)

    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        id = app.sync.publish(orders, OrderPlaced(1), key="customer-3", transaction=connection)
        outcomes = app.sync.publish_many(orders, [OrderPlaced(2), "wrong"], transaction=connection)  # type: ignore[list-item]
    assert id
    assert isinstance(outcomes[0], Published)
    assert isinstance(outcomes[1], Refused)
    async with app.worker():
        await wait_until(lambda: seen == [1, 2])


async def test_the_sync_forms_take_a_transaction(app: App, shop: Path) -> None:
    charged = charges(app)
    charge = app.tasks["charge"]
    orders = app.topic("orders", OrderPlaced)

    def request() -> None:
        own = sqlite3.connect(shop)
        with own:
            own.execute("INSERT INTO orders VALUES (7)")
            app.sync.enqueue(charge.call(1), transaction=own)
            app.sync.enqueue_many([charge.call(2), charge.call(3)], transaction=own)
            app.sync.publish(orders, OrderPlaced(1), transaction=own)
            assert len(app.sync.publish_many(orders, [OrderPlaced(2)], transaction=own)) == 1
        own.close()

    await asyncio.to_thread(request)
    await app.worker(concurrency=1).run(burst=True)
    assert charged == [1, 2, 3]
    [topic] = await app.admin.topics()
    assert topic.length == 2


async def test_aiosqlite_takes_part(app: App, shop: Path) -> None:
    charged = charges(app)
    charge = app.tasks["charge"]
    async with aiosqlite.connect(shop) as connection:
        await connection.execute("INSERT INTO orders VALUES (7)")
        await app.enqueue(charge.call(1), transaction=connection)
        await connection.rollback()
        await connection.execute("INSERT INTO orders VALUES (7)")
        await app.enqueue(charge.call(2), transaction=connection)
        await connection.commit()
        await connection.execute("INSERT INTO orders VALUES (8)")
        with pytest.raises(ConfigurationError, match="asynchronous"):
            app.sync.enqueue(charge.call(3), transaction=connection)
        await connection.rollback()
    await app.worker().run(burst=True)
    assert charged == [2]


# --- mistakes ----------------------------------------------------------------------------------------------


async def test_a_connection_without_an_open_transaction_is_refused(
    app: App, connection: sqlite3.Connection
) -> None:
    charges(app)
    with pytest.raises(ConfigurationError, match="no open transaction"):
        app.sync.enqueue(app.tasks["charge"].call(7), transaction=connection)


async def test_a_database_that_the_app_does_not_know_is_refused(app: App, tmp_path: Path) -> None:
    charges(app)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    other.execute("INSERT INTO orders VALUES (7)")
    with pytest.raises(ConfigurationError, match=r"does not know.*App\(outbox='sqlite:///"):
        app.sync.enqueue(app.tasks["charge"].call(7), transaction=other)
    alone = App("memory://")
    charges(alone)
    with pytest.raises(ConfigurationError, match="has no outbox"):
        alone.sync.enqueue(alone.tasks["charge"].call(7), transaction=other)


async def test_missing_tables_are_not_made_in_the_transaction(tmp_path: Path) -> None:
    app = App("memory://", outbox=f"sqlite:///{tmp_path}/shop.db")
    charges(app)
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("BEGIN")
    with pytest.raises(ConfigurationError, match="headrace schema apply"):
        app.sync.enqueue(app.tasks["charge"].call(7), transaction=connection)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


async def test_a_connection_that_reads_texts_as_bytes_is_recognised(tmp_path: Path, shop: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'store.db'}", outbox=f"sqlite:///{shop}")
    charged = charges(app)
    connection = sqlite3.connect(shop)
    connection.text_factory = bytes
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        app.sync.enqueue(app.tasks["charge"].call(1), transaction=connection)
    connection.close()
    async with aiosqlite.connect(shop) as another:
        another.text_factory = bytes
        await another.execute("INSERT INTO orders VALUES (8)")
        await app.enqueue(app.tasks["charge"].call(2), transaction=another)
        await another.commit()
    await app.worker(concurrency=1).run(burst=True)
    assert charged == [1, 2]
    await app.close()


async def test_the_file_of_the_apps_own_store_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with pytest.raises(ConfigurationError, match="another file"):
        App(url, outbox=url)
    app = App(url, outbox=f"sqlite:///{tmp_path}/shop.db")
    charges(app)
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("BEGIN")
    with pytest.raises(ConfigurationError, match="SQLite store of this app"):
        app.sync.enqueue(app.tasks["charge"].call(7), transaction=connection)


async def test_what_is_no_connection_is_refused(app: App) -> None:
    charges(app)
    with pytest.raises(ConfigurationError, match=r"sqlite3 or aiosqlite, not a builtins\.str"):
        app.sync.enqueue(app.tasks["charge"].call(7), transaction="shop.db")


# --- what becomes of it ------------------------------------------------------------------------------------


async def test_what_the_store_refuses_becomes_a_dead_letter(
    shop: Path, connection: sqlite3.Connection
) -> None:
    app = App("memory://", outbox=f"sqlite:///{shop}", queue_limit=1)
    charged = charges(app)
    charge = app.tasks["charge"]
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        app.sync.enqueue_many([charge.call(1), charge.call(2)], transaction=connection)
    async with app.relay():
        await wait_until(lambda: rows_in(shop) == 0)
    [letter] = await app.admin.dead(queue="default", reason="refused")
    assert letter.task == "charge"
    await app.worker().run(burst=True)
    assert charged == [1]
    await app.admin.replay(ids=[letter.id])
    await app.worker().run(burst=True)
    assert charged == [1, 2]
    await app.close()


async def test_a_delay_counts_from_the_transaction(shop: Path, connection: sqlite3.Connection) -> None:
    app = App("memory://", outbox=f"sqlite:///{shop}")
    charges(app)
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        job = app.sync.enqueue(app.tasks["charge"].with_(delay=3600, transaction=connection).call(1))
        connection.execute("UPDATE headrace_outbox SET at_us = at_us - 1800000000")
    async with app.relay():
        await wait_until(lambda: rows_in(shop) == 0)
    record = await app._app_loop.backend.get(Stream("queue", "default"), job.id)
    assert record is not None
    assert (record.due_us - SystemClock().now_us()) / 1e6 == pytest.approx(1800, abs=60)
    await app.close()


async def test_several_relays_hand_each_job_on_once(shop: Path, connection: sqlite3.Connection) -> None:
    app = App("memory://", outbox=f"sqlite:///{shop}")
    charged = charges(app)
    charge = app.tasks["charge"]
    async with app.relay(), app.relay(), app.relay():
        for start in range(0, 500, 50):
            with connection:
                connection.execute("INSERT INTO orders VALUES (?)", (start,))
                app.sync.enqueue_many(
                    [charge.call(n) for n in range(start, start + 50)], transaction=connection
                )
        await wait_until(lambda: rows_in(shop) == 0)
    await app.worker(concurrency=1).run(burst=True)
    assert charged == list(range(500))
    await app.close()


async def test_a_long_transaction_of_the_user_is_no_error_of_the_relay(
    app: App, shop: Path, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_outbox, "BUSY", 0.05)
    charged = charges(app)
    errors: list[signals.BackendError] = []
    app.on(signals.BackendError)(errors.append)
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        app.sync.enqueue(app.tasks["charge"].call(7), transaction=connection)
    connection.execute("BEGIN IMMEDIATE")
    looks: list[int] = []
    begun = sqlite_outbox._begun

    def counted(handle: sqlite3.Connection) -> bool:
        looks.append(1)
        return begun(handle)

    monkeypatch.setattr(sqlite_outbox, "_begun", counted)
    async with app.worker():
        await wait_until(lambda: len(looks) > 2)
        assert charged == []
        connection.rollback()
        await wait_until(lambda: charged == [7])
    assert errors == []


async def test_a_job_that_replaces_another_one_does_so_when_it_is_relayed(
    app: App, shop: Path, connection: sqlite3.Connection
) -> None:
    charged = charges(app)
    charge = app.tasks["charge"].with_(unique_key="order", on_duplicate="replace")
    waiting = await charge.enqueue(1)
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        job = app.sync.enqueue(charge.call(2), transaction=connection)
    assert not job.duplicate
    async with app.relay():
        await wait_until(lambda: rows_in(shop) == 0)
    assert await job.status() is JobStatus.CANCELLED
    await app.worker().run(burst=True)
    assert await waiting.result(timeout=30) == 2
    assert charged == [2]


async def test_a_duplicate_that_raises_becomes_a_dead_letter(
    app: App, shop: Path, connection: sqlite3.Connection
) -> None:
    charges(app)
    charge = app.tasks["charge"].with_(unique_key="order", on_duplicate="raise")
    waiting = await charge.enqueue(1)
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        job = app.sync.enqueue(charge.call(2), transaction=connection)
    async with app.relay():
        await wait_until(lambda: rows_in(shop) == 0)
    [letter] = await app.admin.dead(reason="refused")
    assert letter.id == job.id
    assert waiting.id in letter.error
