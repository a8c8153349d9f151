"""The lines of `headrace doctor` about a PostgreSQL server."""

from __future__ import annotations

import psycopg
import pytest

from headrace import App
from headrace.stores.postgres import examination
from headrace.stores.postgres.schema.grants import grants_for
from tests.integration.support.postgres_steps import execute, new_name
from tests.support.doctor_findings import FAIL, OK, WARN, examine
from tests.support.postgres_server import Pooler, PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


async def test_a_server_that_is_set_up_for_its_tests(server: PostgresServer) -> None:
    found = await examine(f"{server.url}?schema={new_name('doctor')}")
    for name in ("version", "role", "connections", "tables", "rights", "size", "notifications", "speed"):
        assert found.level(name) == OK
    assert found.level("durability") == WARN  # the server of the tests runs without fsync
    assert "headrace_outbox" not in found


async def test_messages_that_no_relay_takes_from_the_outbox_beside_the_tables_are_named(
    server: PostgresServer,
) -> None:
    url = f"{server.url}?schema={new_name('doctor')}"
    async with App(url):  # makes the tables
        pass
    async with (
        App("memory://", outbox=url) as before,
        await psycopg.AsyncConnection.connect(server.url) as own,
    ):
        charge = before.task(name="charge")(_charge)
        await own.execute("SELECT 1")
        await charge.with_(transaction=own).enqueue(7)
    assert "headrace_outbox" not in await examine(url)  # a relay may just be about to take it
    schema = url.partition("?schema=")[2]
    await execute(server, f"UPDATE {schema}.headrace_outbox SET at_us = at_us - 3600000000")
    found = await examine(url)
    assert found.level("headrace_outbox") == WARN
    assert found["headrace_outbox"].text.startswith("1 wait")
    assert "headrace_outbox" not in await examine(url, namespace="another")


async def _charge(order: int) -> None: ...


async def test_a_transaction_that_stays_open_is_named(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}?schema={new_name('doctor')}"
    monkeypatch.setattr(examination, "LONG", 0)
    async with await psycopg.AsyncConnection.connect(server.url) as held:
        await held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        assert (await examine(url)).level("open transactions") == WARN


async def test_a_role_that_does_not_see_the_transactions_of_others_learns_it(server: PostgresServer) -> None:
    schema, role = new_name("doctor"), new_name("worker")
    await examine(f"{server.url}?schema={schema}")
    await execute(server, f"CREATE ROLE {role} LOGIN; " + "; ".join(grants_for(schema, role)))
    url = f"{server.url_as(role)}?schema={schema}"
    assert "GRANT pg_monitor" in (await examine(url))["open transactions"].text
    await execute(server, f"GRANT pg_monitor TO {role}")
    assert "GRANT" not in (await examine(url))["open transactions"].text


async def test_a_read_only_server_and_a_pooler_are_named(server: PostgresServer) -> None:
    url = f"{server.url}?schema={new_name('doctor')}"
    await examine(url)
    with Pooler(server) as pooler:
        assert (await examine(url.replace(server.url, pooler.url))).level("notifications") == WARN
    read_only = f"{url}&options=-c%20default_transaction_read_only%3Don"
    assert (await examine(read_only)).level("role") == FAIL


async def test_functions_that_a_role_may_not_execute_are_named_with_the_grant(server: PostgresServer) -> None:
    schema, role = new_name("doctor"), new_name("worker")
    await examine(f"{server.url}?schema={schema}")
    await execute(server, f"CREATE ROLE {role} LOGIN; " + "; ".join(grants_for(schema, role)))
    await execute(server, f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC")
    url = f"{server.url_as(role)}?schema={schema}"
    found = await examine(url)
    assert found.level("rights") == FAIL
    await execute(server, found["rights"].remedy)
    assert (await examine(url)).level("rights") == OK
