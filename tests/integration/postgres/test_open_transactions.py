"""Transactions that stay open, and what waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream, UniqueKey, group_stream
from headrace.core.messages.outcome import Done, Settlement, Verdict
from headrace.core.records.answers import Answer
from headrace.core.records.record import JobStatus
from headrace.core.topics.topic import BEGINNING
from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.session.connection import PostgresConnection
from headrace.stores.postgres.session.pool import MOST
from headrace.stores.postgres.session.session import channel_of
from headrace.stores.postgres.session.transaction import PostgresTransaction
from headrace.stores.postgres.store import PostgresStore
from headrace.stores.postgres.topics.publish import stage
from headrace.stores.postgres.verbs.append import append
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import (
    QUEUE,
    batch,
    claimed,
    execute,
    new_name,
    opened,
    value_of,
)
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

#: Whether any session waits for a lock.
WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"

TOPIC = Stream("topic", "orders")
GROUP = group_stream("orders", "billing")


def publication(id: str, *, unique: str = "") -> Batch:
    key = UniqueKey(unique) if unique else None
    return Batch(TOPIC, new_id(), 1, [Message(id, "event", b"", unique=key, key="a")])


async def log_of(store: PostgresStore) -> list[tuple[int, str]]:
    reading = await store.read(TOPIC, BEGINNING, consumer="reader", limit=100, wait=0)
    return [(entry.number, entry.id) for entry in reading.entries]


@asynccontextmanager
async def open_transaction(server: PostgresServer, namespace: str) -> AsyncIterator[PostgresTransaction]:
    """A transaction of the store that is committed at the end of the block."""
    connection = await PostgresConnection.open(PostgresAddress.parse(server.url))
    try:
        await connection.run("SET idle_in_transaction_session_timeout = 0")
        await connection.run(connection.begin)
        [(now_us,)] = await connection.rows("SELECT headrace.now_us(0)")
        channel = channel_of("headrace", namespace)
        transaction = PostgresTransaction(connection, namespace=namespace, channel=channel, now_us=now_us)
        yield transaction
        await transaction.finish()
        await connection.change("COMMIT")
    finally:
        await connection.close()


async def test_a_publishing_transaction_that_stays_open_delays_only_its_own_event(
    server: PostgresServer,
) -> None:
    namespace = new_id()
    async with opened(server.url, namespace) as store:
        await store.join(GROUP, BEGINNING)
        assert await store.append(publication("first")) == [Answer("first")]
        async with open_transaction(server, namespace) as transaction:
            assert await stage(transaction, publication("open", unique="nightly")) == [Answer("open")]
            assert await store.append(publication("plain")) == [Answer("plain")]
            assert await store.append(publication("keyed", unique="daily")) == [Answer("keyed")]
            committed = [(1, "first"), (2, "plain"), (3, "keyed")]
            assert await log_of(store) == committed
            claims = await store.claim([GROUP], consumer="worker", limit=10, suspects=1, wait=0)
            assert [claim.id for claim in claims] == ["first", "plain", "keyed"]
        assert (await store.promote([TOPIC], limit=10)).count == 1
        assert await log_of(store) == [*committed, (4, "open")]
        [claim] = await store.claim([GROUP], consumer="worker", limit=10, suspects=1, wait=0)
        assert claim.id == "open"


async def test_a_repeat_moves_what_the_first_attempt_has_left_beside_the_log(server: PostgresServer) -> None:
    namespace, sent = new_id(), publication("event", unique="nightly")
    async with opened(server.url, namespace) as store:
        async with open_transaction(server, namespace) as transaction:
            await stage(transaction, sent)
        assert await log_of(store) == []
        assert await store.append(sent) == [Answer("event")]
        assert await log_of(store) == [(1, "event")]


async def test_enqueues_that_wait_for_open_transactions_leave_connections_for_other_steps(
    server: PostgresServer,
) -> None:
    namespace = new_id()
    queues = [Stream("queue", f"queue-{number}") for number in range(2 * MOST)]

    def keyed(queue: Stream, id: str) -> Batch:
        return Batch(queue, new_id(), 1, [Message(id, "greet", b"", unique=UniqueKey("nightly"))])

    async with opened(server.url, namespace) as store:
        async with open_transaction(server, namespace) as transaction:
            for queue in queues:
                await append(transaction, keyed(queue, "first"))
            waiting = [asyncio.create_task(store.append(keyed(queue, "second"))) for queue in queues]
            await wait_until(lambda: value_of(server, WAITS), timeout=60)
            plain = Batch(QUEUE, new_id(), 1, [Message("plain", "greet", b"", fresh=True)])
            assert await store.append(plain) == [Answer("plain")]
            [claim] = await store.claim([QUEUE], consumer="worker", limit=10, suspects=1, wait=0)
            assert await store.settle([Settlement(claim, Done())]) == [Verdict.KEPT]
            assert not any([task.done() for task in waiting])
        assert await asyncio.gather(*waiting) == [[Answer("first", "duplicate")]] * len(queues)


async def test_callers_that_wait_for_a_job_in_an_open_transaction_leave_connections_for_other_steps(
    server: PostgresServer,
) -> None:
    namespace = new_id()
    async with opened(server.url, namespace) as store:
        await store.append(batch("locked", "other"))
        async with open_transaction(server, namespace) as transaction:
            await transaction.rows("SELECT FROM headrace.messages WHERE id = 'locked' FOR UPDATE")
            waiting = [asyncio.create_task(store.wait_for_end(QUEUE, "locked", 60)) for _ in range(2 * MOST)]
            await wait_until(lambda: value_of(server, WAITS), timeout=60)
            assert await claimed(store) == ["other"]
        await store.cancel(QUEUE, "locked", ttl_us=60_000_000)
        ended = await asyncio.gather(*waiting)
        assert {record.status for record in ended if record is not None} == {JobStatus.CANCELLED}


@pytest.mark.parametrize("stream", [QUEUE, TOPIC], ids=str)
async def test_an_append_with_a_limit_that_waits_for_a_key_holds_up_no_other(
    server: PostgresServer, stream: Stream
) -> None:
    namespace = new_id()

    def limited(id: str, *, unique: str = "") -> Batch:
        message = Message(id, "greet", b"", unique=UniqueKey(unique) if unique else None, fresh=True)
        return Batch(stream, new_id(), 1, [message], limit=100)

    async with opened(server.url, namespace) as store, opened(server.url, namespace) as other:
        await store.append(limited("before"))
        async with open_transaction(server, namespace) as transaction:
            keyed = replace(limited("first", unique="nightly"), limit=None)
            await (append if stream is QUEUE else stage)(transaction, keyed)
            waiting = asyncio.create_task(store.append(limited("second", unique="nightly")))
            await wait_until(lambda: value_of(server, WAITS), timeout=60)
            assert await other.append(limited("other")) == [Answer("other")]
            assert not waiting.done()
        assert await waiting == [Answer("first", "duplicate")]


async def test_the_removal_of_a_queue_that_waits_for_an_open_transaction_holds_up_no_other(
    server: PostgresServer,
) -> None:
    namespace = new_id()

    def fresh(id: str) -> Batch:
        return Batch(QUEUE, new_id(), 1, [Message(id, "greet", b"", fresh=True)])

    async with opened(server.url, namespace) as store, opened(server.url, namespace) as other:
        await store.append(fresh("before"))  # it makes the queue
        async with open_transaction(server, namespace) as transaction:
            await append(transaction, fresh("first"))
            removal = asyncio.create_task(store.remove_stream(QUEUE))
            await wait_until(lambda: value_of(server, WAITS), timeout=60)
            assert await other.append(fresh("other")) == [Answer("other")]
            assert not removal.done()
        assert not await removal
        assert await claimed(store) == ["before", "first", "other"]


async def test_a_process_that_stops_within_a_step_is_ended_by_the_server(server: PostgresServer) -> None:
    async with opened(server.url):
        pass
    role = new_name("idle")
    await execute(server, f"CREATE ROLE {role} LOGIN SUPERUSER")
    await execute(server, f"ALTER ROLE {role} SET idle_in_transaction_session_timeout = 100")
    async with (
        opened(server.url_as(role)) as store,
        opened(server.url) as watching,
    ):

        async def stop(transaction: PostgresTransaction) -> None:
            [(pid,)] = await transaction.rows("SELECT pg_backend_pid()")

            async def is_gone() -> bool:
                sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1"
                return not await watching._read(lambda connection: connection.rows(sql, (pid,)))

            await wait_until(is_gone, timeout=20)
            await transaction.rows("SELECT 1")

        with pytest.raises(BackendUnavailable, match="idle") as caught:
            await store._write(stop)
        assert (caught.value.transient, caught.value.uncertain) == (True, False)
        assert await store.append(batch("job")) == [Answer("job")]


@pytest.mark.parametrize(("given", "used"), [("0", "10s"), ("3s", "3s")])
async def test_a_session_is_not_idle_within_a_transaction_for_long(
    server: PostgresServer, given: str, used: str
) -> None:
    role = new_name("limited")
    await execute(server, f"CREATE ROLE {role} LOGIN SUPERUSER")
    await execute(server, f"ALTER ROLE {role} SET idle_in_transaction_session_timeout = '{given}'")
    async with opened(server.url_as(role)) as store:
        shown = "SHOW idle_in_transaction_session_timeout"
        assert await store._read(lambda connection: connection.rows(shown)) == [(used,)]
