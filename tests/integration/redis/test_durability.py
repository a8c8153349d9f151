"""`NotDurable`: what was taken but not confirmed is told with the jobs themselves."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import App, Job, JobStatus, NotDurable
from headrace.core.errors import BackendUnavailable, Moved, NotConfirmed
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.redis import scripts
from headrace.stores.redis.client.connection import Link
from headrace.stores.redis.store import RedisStore
from headrace.stores.redis.verbs import append
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import STREAM
from tests.support.queue_split_steps import seal
from tests.support.server_groups import QUICKLY
from tests.support.servers import HOST, Server, require
from tests.support.waiting import wait_until

pytestmark = pytest.mark.more


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[Server]:
    with Server(require("valkey-9.1"), directory=tmp_path / "primary", arguments=QUICKLY) as server:
        yield server


@pytest.fixture
async def app(primary: Server) -> AsyncIterator[App]:
    app = App(primary.url, durability="replicated")
    async with app:
        yield app


@pytest.fixture
async def backend(primary: Server) -> AsyncIterator[RedisStore]:
    backend = open_store(primary.url, durability="replicated")
    assert isinstance(backend, RedisStore)
    await backend.open()
    yield backend
    await backend.close()


async def test_the_error_carries_the_job_which_may_still_run(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(NotDurable, match="no replica has confirmed it") as caught:
        await add.enqueue(1, 2)
    job = caught.value.job
    assert isinstance(job, Job)
    assert caught.value.accepted == [job]
    assert (job.task, await job.status()) == (add.name, JobStatus.QUEUED)
    async with app.worker(grace=0):
        assert await job.result(timeout=10) == 3


async def test_each_of_many_callers_is_told_of_its_own_job(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    ids = [new_id() for _ in range(5)]
    results = await asyncio.gather(
        *(add.with_(job_id=id).enqueue(1, 2) for id in ids), return_exceptions=True
    )
    told = [error.job.id for error in results if isinstance(error, NotDurable) and error.job]
    assert told == ids


async def test_of_many_calls_the_jobs_that_were_taken_are_told(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(NotDurable) as caught:
        await app.enqueue_many([add.call(1, 2), add.with_(queue="other").call(3, 4)])
    assert [(job.task, job.queue) for job in caught.value.accepted] == [
        (add.name, "default"),
        (add.name, "other"),
    ]


async def test_a_batch_that_is_sent_again_on_a_new_connection_is_not_confirmed_by_nobody(
    primary: Server, tmp_path: Path
) -> None:
    arguments = ["--replicaof", f"{HOST} {primary.port}"]
    replica = Server(require("valkey-9.1"), directory=tmp_path / "replica", arguments=arguments)
    with replica:
        await wait_until(lambda: b"state=online" in _replication(primary), timeout=20)
        async with Proxy(primary.port) as proxy:
            backend = open_store(proxy.url, durability="replicated")
            await backend.open()
            try:
                warm, batch = (Batch(STREAM, "p", number, [Message(new_id(), "", b"")]) for number in (1, 2))
                await backend.append(warm)
                os.kill(replica.pid, signal.SIGSTOP)
                proxy.lose_reply(to=scripts.APPEND.digest)
                with pytest.raises(BackendUnavailable):
                    await backend.append(batch)
                with pytest.raises(NotConfirmed):
                    await backend.append(batch)
                os.kill(replica.pid, signal.SIGCONT)
                await wait_until(lambda: _confirms(backend, batch), timeout=20)
            finally:
                os.kill(replica.pid, signal.SIGCONT)
                await backend.close()


async def test_as_many_replicas_confirm_it_as_the_server_demands(primary: Server, tmp_path: Path) -> None:
    """Whichever of them is promoted then has it."""
    arguments = ["--replicaof", f"{HOST} {primary.port}"]
    first, second = (
        Server(require("valkey-9.1"), directory=tmp_path / name, arguments=arguments)
        for name in ("first", "second")
    )
    with first, second:
        await wait_until(lambda: _replication(primary).count(b"state=online") == 2, timeout=20)
        primary.command("CONFIG", "SET", "min-replicas-to-write", 2)
        backend = open_store(primary.url, durability="replicated")
        await backend.open()
        try:
            await backend.append(Batch(STREAM, "p", 1, [Message(new_id(), "", b"")]))
            os.kill(second.pid, signal.SIGSTOP)  # it still counts as one that follows
            with pytest.raises(NotConfirmed, match="not all 2 replicas"):
                await backend.append(Batch(STREAM, "p", 2, [Message(new_id(), "", b"")]))
        finally:
            os.kill(second.pid, signal.SIGCONT)
            await backend.close()


async def test_what_one_server_has_taken_is_not_confirmed_by_the_next(
    backend: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is made anew may lead to a server that took over without the job."""
    run_all = backend._store.run_all

    async def run_and_lose_the_connection(*args: Any, **options: Any) -> list[Any]:
        replies = await run_all(*args, **options)
        assert isinstance(backend._append_way, Link)
        backend._append_way.drop()
        return replies

    monkeypatch.setattr(backend._store, "run_all", run_and_lose_the_connection)
    with pytest.raises(BackendUnavailable, match="before the jobs were confirmed") as caught:
        await backend.append(Batch(STREAM, "p", 1, [Message(new_id(), "", b"")]))
    assert caught.value.uncertain


@pytest.mark.parametrize("when", ["while it is waited for", "before it is asked for"])
async def test_a_server_that_becomes_a_replica_leaves_it_to_its_successor(
    primary: Server, backend: RedisStore, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets no `NotConfirmed`: the batch is sent again, to the new primary."""
    run_all = backend._store.run_all

    async def run_and_be_demoted(*args: Any, **options: Any) -> list[Any]:
        replies = await run_all(*args, **options)
        _demote(primary)
        return replies

    if when == "before it is asked for":
        monkeypatch.setattr(backend._store, "run_all", run_and_be_demoted)
    adding = asyncio.create_task(backend.append(Batch(STREAM, "p", 1, [Message(new_id(), "", b"")])))
    if when == "while it is waited for":
        await wait_until(lambda: _blocked(primary))
        _demote(primary)
    with pytest.raises(BackendUnavailable, match="another server has taken over") as caught:
        await adding
    assert not isinstance(caught.value, NotConfirmed)
    assert (caught.value.uncertain, caught.value.transient) == (True, True)
    assert isinstance(backend._append_way, Link)
    assert backend._append_way.wire is None  # the next one may lead elsewhere


def _demote(server: Server) -> None:
    server.command("REPLICAOF", HOST, 1)


def _blocked(server: Server) -> bool:
    told = server.command("INFO", "clients")
    assert isinstance(told, bytes)
    return b"blocked_clients:1" in told


def _replication(server: Server) -> bytes:
    answer = server.command("INFO", "replication")
    assert isinstance(answer, bytes)
    return answer


async def _confirms(backend: Store, batch: Batch) -> bool:
    try:
        await backend.append(batch)
    except NotConfirmed:
        return False
    return True


async def test_what_was_taken_before_a_part_was_sealed_is_confirmed_like_the_rest(primary: Server) -> None:
    """A large batch goes in chunks, and the seal came between two of them."""
    messages = [Message(new_id(), "greet", b"", fresh=True) for _ in range(append.ITEMS + 1)]
    default, replicated = open_store(primary.url), open_store(primary.url, durability="replicated")
    await default.open()
    await replicated.open()
    try:
        await default.append(Batch(STREAM, "producer", 1, messages[:-1]))
        await seal(default, STREAM)
        with pytest.raises(Moved) as caught:
            await replicated.append(Batch(STREAM, "producer", 1, messages))
        assert [answer is None for answer in caught.value.answers] == [*[False] * append.ITEMS, True]
        assert isinstance(caught.value.undurable, NotConfirmed)
    finally:
        await replicated.close()
        await default.close()
