"""`transaction=` with the connections of SQLAlchemy and Django, on a SQLite file of the user."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from headrace import App, ConfigurationError
from headrace.core.runtime.clock import SystemClock
from headrace.stores.outbox.sqlite_outbox import SqliteOutbox

pytestmark = pytest.mark.anyio

INSERT = text("INSERT INTO orders VALUES (7)")


@pytest.fixture
async def shop(tmp_path: Path) -> Path:
    """The file of a user, with the tables of the outbox."""
    file = tmp_path / "shop.db"
    outbox = SqliteOutbox(f"sqlite:///{file}", namespace="headrace", clock=SystemClock())
    await outbox.apply()
    await outbox.close()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
    return file


@pytest.fixture
async def app(shop: Path) -> AsyncIterator[App]:
    app = App("memory://", outbox=f"sqlite:///{shop}")
    app.charged = []  # type: ignore[attr-defined]

    @app.task(name="charge")
    async def charge(order: int) -> None:
        app.charged.append(order)  # type: ignore[attr-defined]

    yield app
    await app.close()


async def charged(app: App) -> list[int]:
    """The orders that are charged when all jobs have run."""
    await app.worker(concurrency=1).run(burst=True)
    return app.charged  # type: ignore[attr-defined, no-any-return]


async def test_a_connection_of_sqlalchemy(app: App, shop: Path) -> None:
    charge = app.tasks["charge"]

    def work() -> None:
        engine = create_engine(f"sqlite:///{shop}")
        with engine.begin() as connection:
            connection.execute(INSERT)
            app.sync.enqueue(charge.call(1), transaction=connection)
            with connection.begin_nested() as savepoint:
                app.sync.enqueue(charge.call(2), transaction=connection)
                savepoint.rollback()
        with engine.connect() as connection:
            connection.execute(INSERT)
            app.sync.enqueue(charge.call(3), transaction=connection)
            connection.rollback()
            with pytest.raises(ConfigurationError, match="no open transaction"):
                app.sync.enqueue(charge.call(4), transaction=connection)
        engine.dispose()

    await asyncio.to_thread(work)
    assert await charged(app) == [1]


async def test_a_session_of_sqlalchemy(app: App, shop: Path) -> None:
    charge = app.tasks["charge"]

    def work() -> None:
        engine = create_engine(f"sqlite:///{shop}")
        with Session(engine) as session, session.begin():
            session.execute(INSERT)
            app.sync.enqueue_many([charge.call(1), charge.call(2)], transaction=session)
        with Session(engine) as session:
            session.execute(INSERT)
            app.sync.enqueue(charge.call(3), transaction=session)
            session.rollback()
        scoped = scoped_session(sessionmaker(engine))
        scoped.execute(INSERT)
        app.sync.enqueue(charge.call(4), transaction=scoped)
        scoped.commit()
        scoped.remove()
        engine.dispose()

    await asyncio.to_thread(work)
    assert await charged(app) == [1, 2, 4]


async def test_asynchronous_connections_and_sessions_of_sqlalchemy(app: App, shop: Path) -> None:
    charge = app.tasks["charge"]
    engine = create_async_engine(f"sqlite+aiosqlite:///{shop}")
    async with engine.begin() as connection:
        await connection.execute(INSERT)
        await app.enqueue(charge.call(1), transaction=connection)
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(INSERT)
        await app.enqueue(charge.call(2), transaction=session)
        await session.run_sync(lambda inner: app.sync.enqueue(charge.call(3), transaction=inner))
    async with AsyncSession(engine) as session:
        await session.execute(INSERT)
        await app.enqueue(charge.call(4), transaction=session)
        await session.rollback()
    await engine.dispose()
    assert await charged(app) == [1, 2, 3]


DJANGO = """
import sys
import django
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}}, USE_TZ=True
)
django.setup()
from django.db import connection, connections, transaction
from headrace import App, ConfigurationError

app = App("memory://", outbox=f"sqlite:///{sys.argv[1]}")

@app.task(name="charge")
async def charge(order: int) -> None: ...

with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (7)")
    app.sync.enqueue(charge.call(1), transaction=connection)
    try:
        with transaction.atomic():
            app.sync.enqueue(charge.call(2), transaction=connections["default"])
            raise LookupError
    except LookupError:
        pass
try:
    with transaction.atomic():
        app.sync.enqueue(charge.call(3), transaction=connection)
        raise LookupError
except LookupError:
    pass
try:
    app.sync.enqueue(charge.call(4), transaction=connection)
except ConfigurationError as error:
    assert "no open transaction" in str(error)
else:
    raise AssertionError
"""


async def test_the_connection_of_django(app: App, shop: Path) -> None:
    """In a process of its own: Django is configured once in a process."""
    command = [sys.executable, "-W", "error", "-c", DJANGO, str(shop)]
    ended = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert await charged(app) == [1]
