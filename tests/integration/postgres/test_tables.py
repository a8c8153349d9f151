"""Who makes the tables, and who may use them."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import ConfigurationError
from headrace.core.records.answers import Answer
from headrace.stores import open_store
from headrace.stores.postgres.schema.grants import SPECIAL, TABLES, grants_for
from headrace.stores.postgres.schema.migrations import CURRENT
from headrace.stores.postgres.schema.schema import script
from tests.integration.support.postgres_steps import (
    batch,
    execute,
    exercise,
    new_name,
    opened,
)
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


async def test_several_processes_make_the_tables_once(server: PostgresServer) -> None:
    url = f"{server.url}?schema={new_name('made')}"
    stores = [open_store(url) for _ in range(4)]
    await asyncio.gather(*[store.open() for store in stores])
    assert await stores[0].append(batch("job")) == [Answer("job")]
    for store in stores:
        await store.close()


async def test_tables_that_were_made_by_hand_are_used(server: PostgresServer) -> None:
    schema = new_name("by_hand")
    await execute(server, script(schema))
    async with opened(f"{server.url}?schema={schema}") as store:
        await exercise(store)


async def test_tables_of_a_version_that_is_too_new_are_refused(server: PostgresServer) -> None:
    schema = new_name("new")
    await execute(server, script(schema))
    await execute(server, f"UPDATE {schema}.meta SET version = 99, oldest = {CURRENT.version}")
    async with opened(f"{server.url}?schema={schema}") as store:
        assert await store.append(batch("job")) == [Answer("job")]
    await execute(server, f"UPDATE {schema}.meta SET oldest = 99")
    with pytest.raises(ConfigurationError, match="install a newer one"):
        await open_store(f"{server.url}?schema={schema}").open()


async def test_a_role_without_ddl_works_on_prepared_tables(server: PostgresServer) -> None:
    schema = new_name("prepared")
    async with opened(f"{server.url}?schema={schema}"):
        pass
    role = new_name("worker")
    await execute(server, f"CREATE ROLE {role} LOGIN; " + "; ".join(grants_for(schema, role)))
    url = server.url_as(role)
    async with opened(f"{url}?schema={schema}") as store:
        await exercise(store)
        assert {finding.name: finding.level for finding in await store.examine()}["rights"] == "ok"
        await execute(server, f"REVOKE UPDATE ON {schema}.messages FROM {role}")
        found = next(finding for finding in await store.examine() if finding.name == "rights")
        assert (found.level, found.remedy) == ("fail", "; ".join(grants_for(schema, role)))
        assert "messages" in found.text
    with pytest.raises(ConfigurationError, match="headrace schema apply"):
        await open_store(f"{url}?schema=missing_{schema}").open()


async def test_a_role_without_rights_learns_which_it_needs(server: PostgresServer) -> None:
    schema, role = new_name("closed"), new_name("stranger-with-a-dash")
    await execute(server, f'{script(schema)} CREATE ROLE "{role}" LOGIN')
    url = f"{server.url_as(role)}?schema={schema}"
    with pytest.raises(ConfigurationError) as caught:
        await open_store(url).open()
    grants = grants_for(schema, role)
    assert all(grant in str(caught.value) for grant in grants)
    await execute(server, "; ".join(grants))
    async with opened(url) as store:
        await exercise(store)


async def test_the_grants_name_every_table(server: PostgresServer) -> None:
    async with opened(server.url) as store:
        sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'headrace'"
        rows = await store._read(lambda connection: connection.rows(sql))
    assert sorted(name for (name,) in rows) == sorted([*TABLES, *SPECIAL])
