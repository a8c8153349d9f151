"""Transactions that meet each other."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import RequestRefused
from headrace.core.records.answers import Answer
from headrace.stores.postgres.session.transaction import PostgresTransaction
from tests.integration.support.postgres_steps import (
    batch,
    exercise,
    opened,
)
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


async def test_a_deadlock_is_tried_again(server: PostgresServer) -> None:
    async with opened(server.url) as store:
        met = asyncio.Barrier(2)
        rounds = {1: 0, 2: 0}

        async def lock(transaction: PostgresTransaction, first: int, second: int) -> int:
            rounds[first] += 1
            await transaction.rows("SELECT pg_advisory_xact_lock($1)", (first,))
            if rounds[first] == 1:
                await met.wait()
            await transaction.rows("SELECT pg_advisory_xact_lock($1)", (second,))
            return first

        async def run(first: int, second: int) -> int:
            return await store._write(lambda transaction: lock(transaction, first, second))

        assert list(await asyncio.gather(run(1, 2), run(2, 1))) == [1, 2]
        assert sorted(rounds.values()) == [1, 2]


async def test_a_serialization_failure_is_tried_again(server: PostgresServer) -> None:
    async with opened(server.url) as store:
        rounds = 0

        async def fail_once(transaction: PostgresTransaction) -> int:
            nonlocal rounds
            rounds += 1
            if rounds == 1:
                await transaction.rows("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")
            return rounds

        assert await store._write(fail_once) == 2


async def test_a_stricter_isolation_of_the_database_changes_nothing(server: PostgresServer) -> None:
    url = f"{server.url}?options=-c%20default_transaction_isolation%3Dserializable"
    async with opened(url) as store:
        await exercise(store)


async def test_text_that_cannot_be_stored_is_refused(server: PostgresServer) -> None:
    async with opened(server.url) as store:
        with pytest.raises(RequestRefused) as caught:
            await store.append(batch("a\0b"))
        assert not caught.value.uncertain
        assert await store.append(batch("job")) == [Answer("job")]
