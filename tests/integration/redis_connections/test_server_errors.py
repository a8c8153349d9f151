"""A server that answers, but not as it should: each error of the table provoked on a real one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import msgspec
import pytest

from headrace import App, JobStatus, QueueFull, RetryPolicy
from headrace.core.errors import BackendUnavailable
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Message
from headrace.core.messages.outcome import DONE, Verdict
from headrace.core.records.answers import Renewal
from headrace.core.records.record import WorkerInfo
from headrace.core.schedules.schedule_record import Swapped, advance, establish, pause, remove, resume
from headrace.signals import BackendError
from headrace.stores import open_store
from headrace.testing.contract.kit.heartbeats import beat
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, Bench, opened
from tests.support.servers import HOST, Server, also, require, rows
from tests.support.waiting import wait_until

#: A port on which no server listens: a primary that is gone.
NOWHERE = (HOST, 1)


@pytest.fixture(params=rows())
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """One that a test may spoil."""
    with Server(require(request.param), directory=tmp_path, appendonly=True) as server:
        yield server


@pytest.fixture
async def bench(server: Server) -> AsyncIterator[Bench]:
    async with opened(server.url) as bench:
        yield bench


async def refusal(action: Awaitable[object]) -> BackendUnavailable:
    with pytest.raises(BackendUnavailable) as caught:
        await action
    return caught.value


# --- when a worker starts --------------------------------------------------------------------------------

Commands = tuple[tuple[str | int, ...], ...]

#: What makes a server refuse changes, and takes that back.
REFUSALS: dict[str, tuple[Commands, Commands]] = {
    "READONLY": ((("REPLICAOF", *NOWHERE),), (("REPLICAOF", "NO", "ONE"),)),
    "NOREPLICAS": (
        (("CONFIG", "SET", "min-replicas-to-write", 1),),
        (("CONFIG", "SET", "min-replicas-to-write", 0),),
    ),
    "OOM": ((("CONFIG", "SET", "maxmemory", 1),), (("CONFIG", "SET", "maxmemory", 0),)),
    "MISCONF": (
        (("CONFIG", "SET", "appendonly", "no"), ("CONFIG", "SET", "save", "3600 1"), ("BGSAVE",)),
        (("CONFIG", "SET", "stop-writes-on-bgsave-error", "no"),),
    ),
}


@pytest.mark.parametrize("code", [*sorted(REFUSALS.keys() - {"MISCONF"}), *also("MISCONF")])
async def test_a_worker_that_starts_on_a_server_that_refuses_waits_and_says_so(
    tmp_path: Path, code: str
) -> None:
    with Server(require("redis-7.0"), directory=tmp_path, appendonly=True) as server:
        refuse, accept = REFUSALS[code]
        (tmp_path / "dump.rdb" / "in the way").mkdir(parents=True)  # of snapshots
        for command in refuse:
            server.command(*command)
        await wait_until(lambda: b"last_bgsave_status:err" in persistence(server) or code != "MISCONF")
        app = App(server.url)
        said: list[BackendError] = []
        app.on(BackendError)(said.append)

        async def start() -> None:
            async with app.worker(queues=["work"]):
                pass

        starting = asyncio.create_task(start())
        await wait_until(lambda: said or starting.done())
        assert [(each.service, code in each.error) for each in said] == [("start", True)]
        for command in accept:
            server.command(*command)
        await asyncio.wait_for(starting, 20)
        await app.close()


def persistence(server: Server) -> bytes:
    told = server.command("INFO", "persistence")
    assert isinstance(told, bytes)
    return told


# --- a replica -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serves", ["yes", "no"])
async def test_a_server_that_became_a_replica_refuses_and_serves_again(
    server: Server, bench: Bench, serves: str
) -> None:
    meaning = "is a replica" if serves == "yes" else "lost its primary"
    ids = await bench.add(3)
    held = await bench.claim(1)
    leases = bench.backend.lease_keeper()
    server.command("CONFIG", "SET", "replica-serve-stale-data", serves)
    server.command("REPLICAOF", *NOWHERE)
    for action in (bench.add(), bench.claim(), bench.settle(DONE, *held)):
        error = await refusal(action)
        assert meaning in str(error)
        assert (error.uncertain, error.transient) == (False, True)
    error = await refusal(leases.renew(held))
    assert meaning in str(error)
    server.command("REPLICAOF", "NO", "ONE")
    assert await leases.renew(held) == [Renewal.KEPT]
    await leases.close()
    assert await bench.settle(DONE, *held) == [Verdict.KEPT]
    assert [claim.id for claim in await bench.claim(wait=LONG)] == ids[1:]


async def test_a_claim_that_waits_on_a_server_that_becomes_a_replica_is_told(
    server: Server, bench: Bench
) -> None:
    waiting = asyncio.create_task(bench.claim(wait=LONG))
    await wait_until(lambda: bench.is_blocked(), message="the claim blocks")
    server.command("REPLICAOF", *NOWHERE)
    assert (await refusal(waiting)).transient
    assert "is a replica" in str(await refusal(bench.claim(wait=LONG)))


async def test_connections_to_a_replica_are_given_up_also_the_subscription(
    server: Server, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.stores.redis.client.connection.RECONNECT_MOST", 0.0)
    subscription = bench.backend._announcements._link.wire
    store = bench.backend._store.link.wire
    server.command("REPLICAOF", *NOWHERE)
    await refusal(bench.add())
    assert subscription.closed
    assert store.closed


async def test_a_server_that_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    slowly = ["--loading-process-events-interval-bytes", "1024", "--enable-debug-command", "yes"]
    with Server(require("redis-7.0"), directory=tmp_path, arguments=slowly) as server:
        server.command("EVAL", "for key = 1, 4000 do redis.call('SET', key, key) end", 0)
        server.command("CONFIG", "SET", "key-load-delay", 500)
        async with opened(server.url) as bench:
            [id] = await bench.add()

            async def is_loading() -> bool:
                try:
                    await bench.backend.get(STREAM, id)
                except BackendUnavailable as error:
                    told = "is still loading its data" in str(error)
                    return told and error.transient and not error.uncertain
                return False

            with socket.create_connection((HOST, server.port)) as connection:
                connection.sendall(b"DEBUG RELOAD\r\n")
                await wait_until(is_loading, message="it loads")
                assert [claim.id for claim in await bench.again(bench.claim)] == [id]


async def test_a_producer_and_a_worker_outlive_a_failover(server: Server) -> None:
    app = App(server.url, namespace=new_id())
    errors: list[BackendError] = []
    app.on(BackendError)(errors.append)

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, app.worker(grace=0):
        assert await (await add.enqueue(1, 2)).result(timeout=10) == 3
        server.command("REPLICAOF", *NOWHERE)
        enqueued = asyncio.create_task(add.enqueue(3, 4))
        await wait_until(lambda: any("is a replica" in error.error for error in errors))
        server.command("REPLICAOF", "NO", "ONE")
        assert await (await enqueued).result(timeout=10) == 7


# --- a disk that does not take it ------------------------------------------------------------------------


async def test_a_server_that_cannot_save_is_told_of_at_once(tmp_path: Path) -> None:
    with Server(require("redis-7.0"), directory=tmp_path, arguments=["--save", "3600 1"]) as server:
        async with opened(server.url) as bench:
            await bench.add()
            held = await bench.claim()
            (tmp_path / "dump.rdb").unlink(missing_ok=True)
            (tmp_path / "dump.rdb").mkdir()  # a folder cannot be replaced by the new file
            server.command("BGSAVE")
            await wait_until(lambda: b"last_bgsave_status:err" in info(server, "persistence"), timeout=20)
            error = await refusal(bench.add())
            assert "make room on the disk" in str(error)
            assert (error.uncertain, error.transient) == (False, False)
            (tmp_path / "dump.rdb").rmdir()
            server.command("BGSAVE")
            await wait_until(lambda: b"last_bgsave_status:ok" in info(server, "persistence"), timeout=20)
            assert await bench.settle(DONE, *held) == [Verdict.KEPT]
            await bench.add()


# --- a script of the user --------------------------------------------------------------------------------


async def test_a_server_that_is_busy_with_a_script_is_waited_for(server: Server, bench: Bench) -> None:
    server.command("CONFIG", "SET", "lua-time-limit", 10)
    [id] = await bench.add()
    app = App(server.url, namespace=bench.namespace)
    errors: list[BackendUnavailable] = []

    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    async def is_busy() -> bool:
        try:
            await bench.backend.get(STREAM, id)
        except BackendUnavailable as error:
            errors.append(error)
        return bool(errors)

    async with app:
        with socket.create_connection((HOST, server.port)) as connection:
            connection.sendall(b"EVAL 'while true do end' 0\r\n")
            await wait_until(is_busy, message="it is busy")
            assert "SCRIPT KILL" in str(errors[0])
            assert (errors[0].uncertain, errors[0].transient) == (False, True)
            enqueued = asyncio.create_task(add.enqueue(3, 4))
            await asyncio.wait([enqueued], timeout=0.5)
            assert not enqueued.done()
            server.command("SCRIPT", "KILL")
        job = await enqueued
        assert await job.status() is JobStatus.QUEUED


# --- no memory -------------------------------------------------------------------------------------------


async def test_without_memory_new_jobs_are_refused_and_those_there_end(server: Server) -> None:
    app = App(server.url, namespace=new_id())
    go = asyncio.Event()
    runs: list[str] = []

    @app.task(name="succeeds")
    async def succeeds() -> str:
        runs.append("succeeds")
        await go.wait()
        return "done"

    @app.task(name="fails", retry=RetryPolicy.fixed(1, 0.2))
    async def fails() -> None:
        runs.append("fails")
        await go.wait()
        raise ValueError("no")

    @app.task(name="dies", retry=RetryPolicy.none())
    async def dies() -> None:
        runs.append("dies")
        await go.wait()
        raise ValueError("no")

    async with app, app.worker(grace=0):
        done, failed, dead = [await succeeds.enqueue(), await fails.enqueue(), await dies.enqueue()]
        await wait_until(lambda: len(runs) == 3)
        server.command("CONFIG", "SET", "maxmemory", "512kb")
        with pytest.raises(QueueFull, match="memory") as caught:
            await succeeds.enqueue()
        assert caught.value.accepted == []
        with pytest.raises(QueueFull, match="memory"):
            await app.enqueue_many([succeeds.call()] * 3)
        go.set()
        assert await done.result(timeout=10) == "done"

        async def is_over() -> bool:
            return (await failed.status(), await dead.status()) == (JobStatus.RETRYING, JobStatus.DEAD)

        await wait_until(is_over)
        assert len(runs) == 3
        server.command("CONFIG", "SET", "maxmemory", "0")
        await failed.wait(timeout=15)
        assert sorted(runs) == ["dies", "fails", "fails", "succeeds"]
        assert await (await succeeds.enqueue()).result(timeout=10) == "done"


async def test_a_running_job_is_cancelled_and_waited_for_without_memory(server: Server, bench: Bench) -> None:
    await bench.add(2)
    first, second = await bench.claim()
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    assert await bench.backend.cancel(STREAM, first.id, ttl_us=1) == "requested"
    waiting = asyncio.create_task(bench.backend.wait_for_end(STREAM, second.id, 10))
    await wait_until(lambda: is_watched(bench, second.id))
    await bench.settle(DONE, second)
    assert (await waiting).id == second.id


async def test_a_schedule_fires_as_a_whole_or_not_at_all_without_memory(server: Server, bench: Bench) -> None:
    store = bench.backend
    [first] = await store.swap_schedules([establish(STREAM, "often")])
    assert first.record is not None
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    firing = advance(first.record, first.record.last_us + 1, [Message(new_id(), "greet", b"")])
    with pytest.raises(BackendUnavailable):
        await store.swap_schedules([firing])
    assert (await store.schedules([STREAM])).records == (first.record,)
    server.command("CONFIG", "SET", "maxmemory", "0")
    [paused] = await store.swap_schedules([pause(first.record)])
    assert paused.record is not None
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    [resumed] = await store.swap_schedules([resume(paused.record)])
    assert resumed.record is not None
    assert await store.swap_schedules([remove(resumed.record)]) == [Swapped(True, None)]


async def test_a_worker_starts_and_reclaims_without_memory(server: Server) -> None:
    async with opened(server.url) as bench:
        await bench.add()
        await bench.claim(consumer="gone")
        await bench.backend.reclaim([SOURCE], limit=10)
        namespace = bench.namespace
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    async with opened(server.url, namespace) as bench:
        store = bench.backend._store
        await beat(bench.backend, WorkerInfo("worker", "host", 1, 1, ("work",), 10))
        # As after a restart: the stamp is another's, and reclaim has to be patient for a lease.
        store.server = msgspec.structs.replace(store.server, run_id="another")
        assert (await bench.backend.reclaim([SOURCE], limit=10)).recovered == ()
        await store.command("HDEL", store.queue(STREAM).keys.meta, "patient")
        await bench.age(60)
        [recovery] = (await bench.backend.reclaim([SOURCE], limit=10)).recovered
        assert recovery.status is JobStatus.QUEUED


async def test_the_part_of_a_batch_that_found_room_is_told(server: Server) -> None:
    app = App(server.url, namespace=new_id())

    @app.task(name="keep")
    async def keep(text: str) -> None: ...

    calls = [keep.call("x" * 1000) for _ in range(4000)]
    async with app:
        await app.enqueue(calls[0])
        used = int(info(server, "memory").split(b"used_memory:")[1].split()[0])
        server.command("CONFIG", "SET", "maxmemory", used + 2_000_000)
        with pytest.raises(QueueFull) as caught:
            await app.enqueue_many(calls)
        server.command("CONFIG", "SET", "maxmemory", "0")
        accepted = {job.id for job in caught.value.accepted}
        assert 0 < len(accepted) < 4000
        [queue] = await app.admin.queues()
        assert queue.queued == len(accepted) + 1


# --- who may come in -------------------------------------------------------------------------------------


async def test_a_server_without_a_connection_to_spare_says_so(server: Server) -> None:
    backend = open_store(server.url)
    with socket.create_connection((HOST, server.port)) as connection:
        connection.sendall(b"CONFIG SET maxclients 1\r\n")
        connection.recv(100)
        error = await refusal(backend.open())
        assert "maxclients" in str(error)
        assert error.transient
        connection.sendall(b"CONFIG SET maxclients 100\r\n")
        connection.recv(100)
        await backend.open()
        await backend.close()


async def test_a_password_that_is_asked_for_later_is_told(server: Server, bench: Bench) -> None:
    server.command("CONFIG", "SET", "requirepass", "hush")
    with socket.create_connection((HOST, server.port)) as connection:
        connection.sendall(b"AUTH hush\r\nCLIENT KILL TYPE normal SKIPME yes\r\n")
        await wait_until(lambda: bench.backend._store.link.wire is None)
        error = await refusal(bench.add())
        assert "wants a password" in str(error)
        assert not error.transient
        connection.sendall(b'CONFIG SET requirepass ""\r\n')
        await bench.again(bench.add)


async def test_a_key_of_somebody_else_is_told(server: Server, bench: Bench) -> None:
    server.command("SET", f"{{{bench.namespace}:q:work}}:ids", "mine")
    error = await refusal(bench.add())
    assert "namespace" in str(error)


# --- short ways to say common things ---------------------------------------------------------------------


async def is_watched(bench: Bench, id: str) -> bool:
    key = f"{{{bench.namespace}:q:{STREAM.name}}}:w"
    return bool(await bench.command("HEXISTS", key, id))


def info(server: Server, section: str) -> bytes:
    answer = server.command("INFO", section)
    assert isinstance(answer, bytes)
    return answer
