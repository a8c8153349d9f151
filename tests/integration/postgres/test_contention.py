"""Transactions that meet each other."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from headrace.core.errors import RequestRefused
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, UniqueKey
from headrace.core.records.answers import Answer
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import QUEUE, batch, exercise, opened, value_of
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


@pytest.mark.parametrize("setting", ["default_transaction_isolation%3Dserializable", "array_nulls%3Doff"])
async def test_an_unusual_setting_of_the_database_changes_nothing(
    server: PostgresServer, setting: str
) -> None:
    url = f"{server.url}?options=-c%20{setting}"
    async with opened(url) as store:
        await exercise(store)


async def test_text_that_cannot_be_stored_is_refused(server: PostgresServer) -> None:
    async with opened(server.url) as store:
        with pytest.raises(RequestRefused) as caught:
            await store.append(batch("a\0b"))
        assert not caught.value.uncertain
        assert await store.append(batch("job")) == [Answer("job")]


async def test_one_of_two_producers_gets_the_key_of_an_expired_job(server: PostgresServer) -> None:
    key = new_id()
    async with opened(f"{server.url}?application_name={key}") as store:
        await store.append(with_key(key, "owner", lifetime_us=1))
        async with await psycopg.AsyncConnection.connect(server.url) as other:
            await other.execute("SELECT FROM headrace.unique_keys WHERE key = %s FOR UPDATE", [key])
            appends = asyncio.gather(*(store.append(with_key(key, name)) for name in ("one", "two")))
            await wait_until(lambda: both_wait(server, key), timeout=30)
        [first], [second] = await appends
        assert sorted([first.verdict, second.verdict]) == ["accepted", "duplicate"]
        assert first.id == second.id


async def both_wait(server: PostgresServer, name: str) -> bool:
    whose = f"application_name = '{name}' AND wait_event_type = 'Lock'"
    return await value_of(server, f"SELECT count(*) FROM pg_stat_activity WHERE {whose}") == 2


def with_key(key: str, producer: str, lifetime_us: int = 0) -> Batch:
    message = Message(new_id(), "greet", b"hello", unique=UniqueKey(key), lifetime_us=lifetime_us)
    return Batch(QUEUE, producer, 1, [message])
