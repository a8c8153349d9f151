"""Servers that stop, start again, or do not answer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.records.answers import Answer, Renewal
from headrace.core.records.control import ControlMessage, MissedNotice
from headrace.stores import open_store
from headrace.stores.postgres.session import connection, session, silence
from headrace.stores.sql.wake_ups import WakeUps
from headrace.testing.waiting import wait_until
from tests.integration.support.postgres_steps import (
    QUEUE,
    batch,
    claimed,
    opened,
)
from tests.support.postgres_proxy import BreakingProxy
from tests.support.postgres_server import HOST, PostgresServer, free_port

pytestmark = [pytest.mark.anyio, pytest.mark.more]


async def test_a_store_goes_on_after_a_crash_of_the_server() -> None:
    with PostgresServer(fast=False) as server:
        namespace = new_id()
        async with opened(server.url, namespace) as store, opened(server.url, namespace) as other:
            heard: list[ControlMessage] = []
            store.listen(heard.append)
            await other.append(batch("first"))
            server.kill()
            with pytest.raises(BackendUnavailable) as caught:
                await other.counts(QUEUE)
            assert caught.value.transient
            server.start()
            await wait_until(lambda: MissedNotice() in heard, timeout=20)
            assert await claimed(store) == ["first"]
            waiting = asyncio.create_task(claimed(store, wait=30))
            await other.append(batch("second", number=2))
            assert await waiting == ["second"]


async def test_a_url_with_several_hosts_finds_the_one_that_takes_writes(server: PostgresServer) -> None:
    hosts = f"{HOST}:{free_port()},{HOST}:{server.port}"
    url = f"postgresql://headrace@{hosts}/postgres?target_session_attrs=read-write"
    async with opened(url) as store:
        assert await store.append(batch("job")) == [Answer("job")]


async def test_host_names_are_resolved_while_the_default_executor_is_taken(server: PostgresServer) -> None:
    """A name that does not exist is passed over, and a port holds for its own host."""
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    waiting = loop.run_in_executor(None, gate.wait, 60)
    url = f"postgresql://headrace@nowhere.invalid:1,localhost:{server.port}/postgres"
    try:
        async with asyncio.timeout(20), opened(url) as store:
            assert await store.append(batch("job")) == [Answer("job")]
    finally:
        gate.set()
        await waiting


async def test_a_host_name_that_does_not_exist_is_an_error_that_says_so() -> None:
    with pytest.raises(BackendUnavailable, match=r"nowhere\.invalid") as caught:
        await open_store("postgresql://headrace@nowhere.invalid/postgres").open()
    assert caught.value.transient


async def test_a_server_that_is_away_is_an_error_without_the_password() -> None:
    url = f"postgresql://headrace:sesame@{HOST}:{free_port()}/postgres"
    store = open_store(url)
    assert "sesame" not in store.description
    with pytest.raises(BackendUnavailable) as caught:
        await store.open()
    assert caught.value.transient
    assert "sesame" not in str(caught.value)


async def test_a_server_that_does_not_answer_is_given_up(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        opened(server.url) as store,
        await psycopg.AsyncConnection.connect(server.url) as locking,
    ):
        await locking.execute("LOCK TABLE headrace.messages IN ACCESS EXCLUSIVE MODE")
        with monkeypatch.context() as brief:
            brief.setattr(session, "STEP_TIMEOUT", 0.3)
            with pytest.raises(BackendUnavailable, match="has not answered") as caught:
                await store.append(batch("job"))
        assert caught.value.uncertain
        await locking.rollback()
        assert await store.append(batch("job")) == [Answer("job")]


async def test_a_half_open_connection_is_noticed(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ASK_AFTER", 0.5)
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        await store.append(batch("first"))
        await store._use()._notifier.flush()  # else a new connection is opened
        proxy.silence()
        async with asyncio.timeout(20):
            with pytest.raises(BackendUnavailable) as caught:
                await store.append(batch("second", number=2))
            assert (caught.value.uncertain, caught.value.transient) == (True, True)
            assert await store.append(batch("second", number=2)) == [Answer("second")]


async def test_a_half_open_connection_of_a_lease_keeper_is_noticed(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ASK_AFTER", 0.5)
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        await store.append(batch("job"))
        claims = await store.claim([QUEUE], consumer="worker", limit=1, suspects=1, wait=0)
        keeper = store.lease_keeper()
        assert await keeper.renew(claims) == [Renewal.KEPT]
        proxy.silence()
        async with asyncio.timeout(20):
            with pytest.raises(BackendUnavailable):
                await keeper.renew(claims)
            assert await keeper.renew(claims) == [Renewal.KEPT]
        await keeper.close()


@pytest.mark.parametrize("words", [b"pg_backend_pid", b"enable_seqscan"])
async def test_a_connection_that_falls_silent_while_it_is_opened_is_given_up(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    monkeypatch.setattr(connection, "PREPARE_WITHIN", 0.5)
    async with BreakingProxy(server) as proxy, opened(proxy.url) as store:
        session = store._use()
        if words == b"pg_backend_pid":
            session.pool.pooled = None  # not known yet
        async with asyncio.timeout(20):
            await session.pool.clear()
            proxy.silence_at(words)
            with pytest.raises(BackendUnavailable) as caught:
                await store.append(batch("job"))
            assert (proxy.broken, caught.value.uncertain, caught.value.transient) == (1, False, True)
            assert await store.append(batch("job")) == [Answer("job")]


async def test_a_store_closes_while_a_notification_opens_a_connection_that_falls_silent(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PREPARE_WITHIN", 0.5)
    async with asyncio.timeout(20), BreakingProxy(server) as proxy, opened(proxy.url) as store:
        session = store._use()
        await session.pool.clear()
        proxy.silence_at(b"enable_seqscan")
        session.notify(WakeUps(ready={QUEUE}))
        await wait_until(lambda: proxy.broken)
        await store.close()


@pytest.mark.parametrize("words", [b"LISTEN", b"pg_advisory_lock_shared"])
async def test_a_listener_whose_new_connection_falls_silent_makes_another(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    monkeypatch.setattr(silence, "ASK_AFTER", 0.5)
    async with asyncio.timeout(20), BreakingProxy(server) as proxy, opened(proxy.url) as store:
        heard: list[ControlMessage] = []
        store.listen(heard.append)
        listening = store._use()._listener._connection
        assert listening is not None
        proxy.silence_at(words)
        listening.cut_off()
        await wait_until(lambda: proxy.broken)
        await wait_until(lambda: MissedNotice() in heard)


async def test_a_statement_that_waits_for_a_lock_is_not_taken_for_a_half_open_connection(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "ASK_AFTER", 0.01)
    asked: list[bool] = []
    is_at_work = silence.SilenceWatch._is_at_work

    async def ask(watch: silence.SilenceWatch) -> bool:
        asked.append(await is_at_work(watch))
        return asked[-1]

    monkeypatch.setattr(silence.SilenceWatch, "_is_at_work", ask)
    async with (
        opened(server.url) as store,
        await psycopg.AsyncConnection.connect(server.url) as locking,
    ):
        await locking.execute("LOCK TABLE headrace.messages IN ACCESS EXCLUSIVE MODE")
        appending = asyncio.create_task(store.append(batch("job")))
        await wait_until(lambda: len(asked) >= 3)
        await locking.rollback()
        assert await appending == [Answer("job")]
        assert all(asked)
