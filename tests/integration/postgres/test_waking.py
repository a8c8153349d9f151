"""How a waiting caller learns that there is something: notifications, or polling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import psycopg
import pytest

from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, UniqueKey
from headrace.core.records.control import ControlMessage, DueNotice
from headrace.stores.postgres.session import listener
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import (
    QUEUE,
    batch,
    claimed,
    exercise,
    opened,
    value_of,
)
from tests.support.postgres_server import POOL_SIZE, Pooler, PostgresServer

pytestmark = pytest.mark.anyio


async def test_an_idle_claim_sends_few_statements(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server.url) as store:
        calls = 0
        used = store._use()
        call = used._call

        async def counted(*values: Any) -> list[tuple[object, ...]]:
            nonlocal calls
            calls += 1
            return await call(*values)

        monkeypatch.setattr(used, "_call", counted)
        assert await claimed(store, wait=1.5) == []
        assert calls <= 2


@pytest.mark.parametrize("unique", [None, UniqueKey("k")])
async def test_a_message_is_announced_when_the_one_before_it_may_be_promoted_in_this_moment(
    server: PostgresServer, unique: UniqueKey | None
) -> None:
    async with opened(server.url) as store:
        heard: list[ControlMessage] = []
        stop = store.listen(heard.append)
        await store.append(Batch(QUEUE, "p", 1, [Message("soon", "greet", b"", delay_us=500_000)]))
        later = Message("later", "greet", b"", delay_us=60_000_000, unique=unique)
        await store.append(Batch(QUEUE, "p", 2, [later]))
        await wait_until(lambda: heard == [DueNotice(QUEUE)] * 2)
        stop()


async def test_a_busy_server_is_not_taken_for_a_pooler(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PROBE_TIMEOUT", 0.0)
    async with opened(server.url) as store:
        assert not store._use().pool.pooled


async def test_behind_a_pooler_in_transaction_mode_a_store_polls(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = new_id()
    with Pooler(server) as pooler, caplog.at_level(logging.WARNING, "headrace"):
        async with opened(pooler.url, namespace) as store, opened(pooler.url, namespace) as other:
            assert "a pooler in transaction mode" in caplog.text
            waiting = asyncio.create_task(claimed(store, wait=20))
            await other.append(batch("job"))
            assert await waiting == ["job"]
            assert await settings_of(pooler) == {"on"}  # other clients use these sessions, too
            for _ in range(10):  # a statement that were prepared would fail by now
                await exercise(store)


async def test_a_claim_that_passed_over_a_message_because_a_caller_began_to_wait_for_it_looks_again(
    server: PostgresServer,
) -> None:
    async with opened(server.url) as store, await psycopg.AsyncConnection.connect(server.url) as holding:
        await store.append(batch("job"))
        await holding.execute("SELECT FROM headrace.messages WHERE id = 'job' FOR UPDATE")
        ending = asyncio.create_task(store.wait_for_end(QUEUE, "job", 4.5))
        marking = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        await wait_until(lambda: value_of(server, marking), message="the caller marks the message")
        assert await claimed(store) == []
        waiting = asyncio.create_task(claimed(store, wait=4.5))
        await asyncio.sleep(0)  # it knows that there is nothing, and waits
        await holding.rollback()
        assert await waiting == ["job"]
        ending.cancel()


async def settings_of(pooler: Pooler) -> set[str]:
    """A setting that the store changes, in the sessions that the pooler has now."""
    async with contextlib.AsyncExitStack() as held:
        found: set[str] = set()
        for _ in range(POOL_SIZE):
            connection = await held.enter_async_context(await psycopg.AsyncConnection.connect(pooler.url))
            cursor = await connection.execute("SELECT current_setting('enable_seqscan')")
            found |= {value for (value,) in await cursor.fetchall()}
    return found
