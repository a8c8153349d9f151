"""The tables are brought up to date while processes of the version before are at work."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

import psycopg
import pytest

from headrace import App
from headrace.core.errors import ConfigurationError
from headrace.core.messages.message import State
from headrace.core.messages.outcome import Done, Retry, Settlement, Verdict
from headrace.core.records.answers import Answer
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.schema import schema
from headrace.stores.postgres.schema.migrations import CURRENT, Migrations
from headrace.stores.postgres.schema.schema import AppliedSchema, SchemaState, apply, read_state, script
from headrace.stores.postgres.session.connection import PREPARE_AFTER, PostgresConnection
from headrace.stores.postgres.store import PostgresStore
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import QUEUE, batch, execute, new_name, opened
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

EXPAND: Final = """
ALTER TABLE headrace.messages ADD COLUMN tenant text;
CREATE INDEX messages_tenant ON headrace.messages (stream, tenant) WHERE tenant IS NOT NULL;
CREATE OR REPLACE FUNCTION headrace.now_us(offset_us bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT offset_us + (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
"""

CONTRACT: Final = "ALTER TABLE headrace.messages DROP COLUMN note;"

#: The migrations of a later headrace.
NEXT: Final = Migrations((*CURRENT.expand, EXPAND), {CURRENT.version + 1: CONTRACT})


@pytest.fixture
def address(server: PostgresServer) -> PostgresAddress:
    """A schema of its own."""
    return PostgresAddress.parse(f"{server.url}?schema={new_name('migrated')}")


def url_of(server: PostgresServer, address: PostgresAddress) -> str:
    return f"{server.url}?schema={address.schema}"


async def state_of(address: PostgresAddress) -> SchemaState | None:
    connection = await PostgresConnection.open(address)
    try:
        return await read_state(connection)
    finally:
        await connection.close()


async def test_workers_of_the_version_before_go_on_while_the_tables_are_expanded(
    server: PostgresServer, address: PostgresAddress
) -> None:
    app = App(url_of(server, address))
    runs: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        runs[number] += 1

    async def enqueue(numbers: range) -> None:
        for number in numbers:
            await count.enqueue(number)

    async with app, app.worker(concurrency=5):
        before = asyncio.create_task(enqueue(range(200)))
        await wait_until(lambda: len(runs) > 20, timeout=30)
        assert await apply(address, NEXT) == AppliedSchema(NEXT.version, contracted=False)
        await before
        await enqueue(range(200, 300))
        await wait_until(lambda: len(runs) == 300, timeout=60)
        assert set(runs.values()) == {1}
        assert await state_of(address) == SchemaState(NEXT.version, CURRENT.oldest)


async def test_what_older_processes_need_is_removed_when_they_are_gone(
    server: PostgresServer, address: PostgresAddress
) -> None:
    async with opened(url_of(server, address)) as store:
        assert not (await apply(address, NEXT)).contracted
        assert await store.append(batch("job")) == [Answer("job")]
    assert await apply(address, NEXT) == AppliedSchema(NEXT.version, contracted=True)
    assert await apply(address, NEXT) == AppliedSchema(NEXT.version, contracted=True)
    assert await state_of(address) == SchemaState(NEXT.version, NEXT.version)
    with pytest.raises(ConfigurationError, match="install a newer one"):
        async with opened(url_of(server, address)):
            pass


async def test_new_tables_have_nothing_that_older_processes_need(address: PostgresAddress) -> None:
    assert await apply(address, NEXT) == AppliedSchema(NEXT.version, contracted=True)
    assert await state_of(address) == SchemaState(NEXT.version, NEXT.version)


async def test_a_migration_by_hand_leads_to_the_same_tables(
    server: PostgresServer, address: PostgresAddress
) -> None:
    await execute(server, script(address.schema))
    assert await state_of(address) == SchemaState(CURRENT.version, CURRENT.oldest)
    expand, contract = script(address.schema, CURRENT.version, NEXT).split("-- Run the rest")
    await execute(server, expand)
    assert await state_of(address) == SchemaState(NEXT.version, CURRENT.oldest)
    async with opened(url_of(server, address)) as store:
        assert await store.append(batch("job")) == [Answer("job")]
    await execute(server, "-- " + contract)
    assert await state_of(address) == SchemaState(NEXT.version, NEXT.version)


async def test_a_migration_that_must_wait_holds_up_no_worker(
    server: PostgresServer, address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", 100)
    monkeypatch.setattr(schema, "PAUSE", 0.05)
    async with (
        opened(url_of(server, address)) as store,
        await psycopg.AsyncConnection.connect(server.url) as reading,
    ):
        await reading.execute(f"SELECT count(*) FROM {address.schema}.messages".encode())
        migrating = asyncio.create_task(apply(address, NEXT))
        for number in range(1, 30):
            assert await store.append(batch(f"job-{number}", number=number)) == [Answer(f"job-{number}")]
        assert not migrating.done()
        await reading.rollback()
        assert (await migrating).version == NEXT.version


async def test_steps_go_on_after_a_migration_that_changes_what_a_statement_answers(
    server: PostgresServer, address: PostgresAddress
) -> None:
    async def step(store: PostgresStore, number: int) -> None:
        assert await store.append(batch(f"job-{number}", number=number)) == [Answer(f"job-{number}")]
        assert await store.get(QUEUE, f"job-{number}") is not None
        [claim] = await store.claim([QUEUE], consumer="worker", limit=1, suspects=1, wait=0)
        assert await store.settle([Settlement(claim, Retry(State(), 0))]) == [Verdict.KEPT]
        [again] = await store.claim([QUEUE], consumer="worker", limit=1, suspects=1, wait=0)
        assert await store.settle([Settlement(again, Done())]) == [Verdict.KEPT]

    async with opened(url_of(server, address)) as store:
        for number in range(4 * PREPARE_AFTER):
            await step(store, number)
        await execute(server, f"ALTER TABLE {address.schema}.messages ALTER COLUMN place TYPE integer")
        await step(store, 100)
