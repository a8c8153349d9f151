"""Transactions of users in a PostgreSQL store that is sealed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from headrace import App, ConfigurationError
from headrace.core.messages.message import Stream
from headrace.core.moving.moving import Moving
from headrace.core.moving.seal import Seal
from headrace.core.store import Store
from headrace.engine.moving.move import Side, StoreMove
from headrace.testing.waiting import wait_until
from tests.integration.moving.conftest import Place
from tests.integration.moving.test_moves import Watcher
from tests.integration.support.moved_content import claim

pytestmark = pytest.mark.anyio

Open = Callable[[Place], Awaitable[Store]]
DEFAULT = Stream("queue", "default")


def shop(where: Place) -> App:
    app = App(where[0], namespace=where[1])

    @app.task(name="charge")
    async def charge(order: int) -> None: ...

    return app


async def test_a_transaction_of_a_user_gets_the_error_and_stays_usable(
    place: Callable[[str], Place], opened: Open
) -> None:
    where = place("postgresql")
    app, store = shop(where), await opened(where)
    assert isinstance(store, Moving)
    await app.tasks["charge"].enqueue(1)
    await store.set_seal(Seal("move", "redis://elsewhere"))

    async with await psycopg.AsyncConnection.connect(where[0]) as connection:
        await connection.execute("SELECT 1")  # begins a transaction
        with pytest.raises(ConfigurationError, match="redis://elsewhere"):
            await app.enqueue(app.tasks["charge"].call(2), transaction=connection)
        assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
    await app.close()


async def test_a_transaction_with_an_old_snapshot_delays_the_move_and_its_job_is_moved(
    place: Callable[[str], Place], opened: Open
) -> None:
    where = place("postgresql")
    app, source, target = shop(where), await opened(where), await opened(place("sqlite"))
    first = await app.tasks["charge"].enqueue(1)
    async with await psycopg.AsyncConnection.connect(where[0]) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT count(*) FROM headrace.streams")  # takes the snapshot
        move = StoreMove(Side(source, "the source"), Side(target, "the target"), Watcher())
        moving = asyncio.create_task(move.run(drain_limit=10))
        assert isinstance(source, Moving)

        async def is_sealed() -> bool:
            return await source.seal() is not None

        await wait_until(is_sealed)
        late = await app.enqueue(app.tasks["charge"].call(2), transaction=connection)
        assert not moving.done()
    await moving

    claims = await claim(target, DEFAULT, limit=10)
    assert [each.id for each in claims] == [first.id, late.id]
    await app.close()


#: A table of which a vacuum takes minutes: it sleeps after each page.
SLOW = """
CREATE TABLE public.slow (content text) WITH (
    autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
    autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0);
INSERT INTO public.slow SELECT repeat('x', 1500) FROM generate_series(1, 10000);
DELETE FROM public.slow
"""

VACUUMS = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND query LIKE '%public.slow%'
"""


@pytest.mark.more
async def test_a_vacuum_of_the_server_does_not_delay_the_move(
    place: Callable[[str], Place], opened: Open
) -> None:
    where = place("postgresql")
    store = await opened(where)
    assert isinstance(store, Moving)
    async with await psycopg.AsyncConnection.connect(where[0], autocommit=True) as connection:
        await connection.execute(SLOW)

        async def is_vacuumed() -> bool:
            return await (await connection.execute(VACUUMS)).fetchone() == (1,)

        try:
            await wait_until(is_vacuumed, timeout=60)
            async with asyncio.timeout(30):
                await store.set_seal(Seal("move", "redis://elsewhere"))
            assert await is_vacuumed()
        finally:
            await connection.execute("DROP TABLE public.slow")
