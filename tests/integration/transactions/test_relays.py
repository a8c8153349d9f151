"""Relays of an outbox in PostgreSQL: how they wake, several at once, and faults of both sides."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from headrace import App, signals
from headrace.core.messages.ids import new_id
from headrace.stores.outbox import schema_of
from headrace.stores.postgres import user_database
from tests.integration.support.postgres_steps import execute
from tests.support.postgres_proxy import BreakingProxy
from tests.support.postgres_server import Pooler, PostgresServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


class Shop:
    """An app with an outbox, and the orders that its jobs have charged."""

    def __init__(self, store: str, outbox: str, namespace: str = "") -> None:
        self.namespace = namespace or new_id()
        self.app = App(store, outbox=outbox, namespace=self.namespace)
        self.charged: list[int] = []
        self.errors: list[signals.BackendError] = []
        self.app.on(signals.BackendError)(self.errors.append)
        self.settled: list[signals.JobSucceeded] = []
        self.app.on(signals.JobSucceeded)(self.settled.append)

        @self.app.task(name="charge")
        async def charge(order: int) -> None:
            self.charged.append(order)

    async def order(self, server: PostgresServer, *orders: int) -> None:
        """A committed transaction with these orders."""
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            for order in orders:
                await connection.execute("INSERT INTO orders VALUES (%s)", (order,))
            calls = [self.app.tasks["charge"].call(order) for order in orders]
            await self.app.enqueue_many(calls, transaction=connection)

    def waiting(self, server: PostgresServer) -> int:
        """The number of rows in the outbox."""
        sql = "SELECT count(*) FROM headrace.headrace_outbox WHERE namespace = %s"
        with psycopg.connect(server.url) as connection:
            [(count,)] = connection.execute(sql, (self.namespace,)).fetchall()
        return int(count)


@contextlib.asynccontextmanager
async def shop_of(store: str, outbox: str, namespace: str = "") -> AsyncIterator[Shop]:
    shop = Shop(store, outbox, namespace)
    try:
        yield shop
    finally:
        await shop.app.close()


# --- waking ------------------------------------------------------------------------------------------------


async def test_the_commit_wakes_a_relay(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_database, "LISTENING", 3600.0)
    async with shop_of("memory://", server.url) as shop, shop.app.worker():
        for order in range(5):
            await shop.order(server, order)
            await wait_until(lambda order=order: len(shop.charged) == order + 1)  # type: ignore[misc]
    assert shop.charged == list(range(5))


async def test_behind_a_pooler_in_transaction_mode_a_relay_polls(server: PostgresServer) -> None:
    with Pooler(server) as pooler:
        async with (
            shop_of("memory://", pooler.url) as shop,
            shop.app.worker(),
            shop.app.relay(),
            shop.app.relay(),
        ):
            for order in range(20):
                await shop.order(server, order)
            await wait_until(lambda: len(shop.charged) == 20)
    assert shop.errors == []


# --- several at once ---------------------------------------------------------------------------------------


async def test_several_relays_keep_the_order_of_transactions(server: PostgresServer, tmp_path: Path) -> None:
    url, namespace = f"sqlite:///{tmp_path}/jobs.db", new_id()
    async with (
        shop_of(url, server.url, namespace) as shop,
        shop.app.relay(),
        shop.app.relay(),
        shop_of(url, server.url, namespace) as other,
        other.app.relay(),
    ):
        for start in range(0, 600, 20):
            await shop.order(server, *range(start, start + 20))
        await wait_until(lambda: shop.waiting(server) == 0)
        await shop.app.worker(concurrency=1).run(burst=True)
    assert shop.charged == list(range(600))


# --- faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["lost", "refused"])
async def test_each_statement_of_a_relay_may_break(server: PostgresServer, fault: str) -> None:
    """Whatever breaks, each job runs once."""
    statements = (
        b"EXISTS",
        b"BEGIN",
        b"FOR UPDATE",
        b"UPDATE headrace.headrace_outbox ",
        b"COMMIT",
        b"DELETE",
    )
    async with (
        BreakingProxy(server) as proxy,
        shop_of("memory://", proxy.url) as shop,
        shop.app.worker(concurrency=1),
    ):
        for order, words in enumerate(statements):
            broken = proxy.broken
            (proxy.lose_answer_of if fault == "lost" else proxy.refuse)(words)
            await shop.order(server, order)
            await wait_until(lambda order=order: len(shop.charged) > order)  # type: ignore[misc]
            await wait_until(lambda: shop.waiting(server) == 0)
            assert proxy.broken == broken + 1, words
    assert shop.charged == list(range(len(statements)))
    assert len(shop.errors) == len(statements)


async def test_a_relay_goes_on_after_a_crash_of_the_server(tmp_path: Path) -> None:
    with PostgresServer(fast=False) as server:
        await schema_of(server.url)
        await execute(server, "CREATE TABLE public.orders (id integer)")
        async with shop_of(f"sqlite:///{tmp_path}/jobs.db", server.url) as shop, shop.app.worker():
            await shop.order(server, 1)
            await wait_until(lambda: shop.charged == [1])
            server.kill()
            await wait_until(lambda: len(shop.errors) > 2)
            server.start()
            await shop.order(server, 2)
            await wait_until(lambda: shop.charged == [1, 2])


@pytest.fixture
def target() -> Iterator[PostgresServer]:
    with PostgresServer(fast=False) as target:
        yield target


async def test_rows_wait_while_the_target_is_away(server: PostgresServer, target: PostgresServer) -> None:
    async with shop_of(target.url, server.url) as shop:
        async with shop.app.worker(concurrency=1):
            await shop.order(server, 1)
            await wait_until(lambda: len(shop.settled) == 1)  # otherwise the crash may undo the claim
            target.kill()
            await shop.order(server, 2, 3)
            await wait_until(lambda: any(each.service == "relay" for each in shop.errors))
            assert shop.waiting(server) == 2
            failures = [each.delay for each in shop.errors if each.service == "relay"]
            assert all(0 < delay <= 1 for delay in failures)
            target.start()
            await wait_until(lambda: shop.charged == [1, 2, 3])
        assert shop.waiting(server) == 0
