"""What a server is asked before it is used, and what a user of its access list needs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import App
from headrace.cli.main import cli
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Message, TrailEntry, UniqueKey
from headrace.core.messages.outcome import DONE, Dead, DeadReason, Done, Failure, Kept, Retry, Verdict
from headrace.core.records.answers import DeadFilter, Renewal
from headrace.core.records.control import ControlMessage, PauseNotice
from headrace.core.records.record import JobStatus, WorkerInfo
from headrace.core.schedules.schedule_record import establish
from headrace.core.store import Store
from headrace.stores import open_store
from headrace.stores.redis.health.permissions import rules_for
from headrace.stores.redis.server import notices
from headrace.testing.contract.kit.heartbeats import beat, leave
from tests.integration.support.redis_bench import LONG, SOURCE, STREAM, Bench, opened
from tests.integration.support.worker_processes import Workshop
from tests.support.servers import HOST, Server, also, require
from tests.support.waiting import wait_until

HOUR = 3_600_000_000


@pytest.fixture
async def user(redis_server: Server) -> AsyncIterator[str]:
    """The name of a user with the smallest rights that work, in a namespace of the same name."""
    name = f"user-{new_id()}"
    redis_server.command("ACL", "SETUSER", name, "on", ">secret", *rules_for(name).split())
    yield name
    redis_server.command("ACL", "DELUSER", name)


def url_of(server: Server, user: str) -> str:
    return f"redis://{user}:secret@{HOST}:{server.port}"


def deny(server: Server, user: str, *rules: str) -> None:
    server.command("ACL", "SETUSER", user, *rules)


async def test_the_rights_that_are_asked_for_are_enough(redis_server: Server, user: str) -> None:
    async with opened(url_of(redis_server, user), user) as bench:
        await everything(bench)


async def everything(bench: Bench) -> None:
    """Each verb that a worker, a producer or an administrator calls."""
    backend, heard = bench.backend, list[ControlMessage]()
    backend.listen(heard.append)
    await backend.append(
        bench.batch(
            Message(new_id(), "greet", b"", unique=UniqueKey("key")),
            Message(new_id(), "greet", b"", unique=UniqueKey("other", "elapsed", HOUR)),
            *[Message(new_id(), "greet", b"") for _ in range(40)],
            Message(new_id(), "greet", b"", delay_us=1),
        )
    )
    waiting = asyncio.create_task(bench.claim(consumer="another", wait=LONG))
    await waiting
    await bench.add(20)
    await backend.promote([SOURCE], limit=10)
    done, kept, failed, dead, told, *_ = await bench.claim(wait=LONG)
    leases = backend.lease_keeper()
    assert await leases.renew([done]) == [Renewal.KEPT]
    await leases.close()
    ended = asyncio.create_task(backend.wait_for_end(STREAM, kept.id, LONG))
    assert await backend.wait_for_end(STREAM, done.id, 0.001) is None
    assert await bench.settle(DONE, done) == [Verdict.KEPT]
    assert await bench.settle(Done(Kept(b"42", HOUR)), kept) == [Verdict.KEPT]
    assert (await ended).result == b"42"
    assert await bench.settle(Retry(failed.state.failed(TrailEntry(1, "failed", "worker")), 1), failed)
    assert await bench.settle(Dead(dead.state, DeadReason.EXHAUSTED, Failure("Error", "no")), dead)
    assert await backend.cancel(STREAM, told.id, ttl_us=HOUR) == "requested"
    assert [letter.id for letter in await backend.dead_letters(STREAM, only=DeadFilter())] == [dead.id]
    assert await backend.replay(STREAM, [dead.id]) == ["replayed"]
    assert (await backend.get(STREAM, dead.id)).status is JobStatus.QUEUED
    await bench.age(60)
    assert (await backend.reclaim([SOURCE], limit=10)).recovered
    await beat(backend, WorkerInfo("worker", "host", 1, 1, ("work",), 10))
    assert [worker.consumer for worker in await backend.workers()] == ["worker"]
    await backend.pause(STREAM, paused=True)
    await wait_until(lambda: PauseNotice(STREAM, True) in heard)
    await backend.pause(STREAM, paused=False)
    await backend.swap_schedules([establish(STREAM, "daily")])
    assert (await backend.counts(STREAM)).queued > 0
    assert len(list(await backend.messages(STREAM))) > 0
    await backend.purge(STREAM, ttl_us=HOUR, limit=100)
    await backend.prune(limit=100)
    await leave(backend, "worker", STREAM)
    assert await backend.streams() == [STREAM]


@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        (["-xadd"], "XADD"),
        (["-zrangebyscore", "-hset"], "HSET, ZRANGEBYSCORE"),
        (["-evalsha"], "EVALSHA"),
        (["-publish"], "PUBLISH"),
        (["resetkeys", "~other:*"], "EVALSHA"),
    ],
)
async def test_a_user_who_lacks_a_right_is_refused_with_its_name_and_the_remedy(
    redis_server: Server, user: str, rules: list[str], missing: str
) -> None:
    deny(redis_server, user, *rules)
    backend = open_store(url_of(redis_server, user), namespace=user)
    with pytest.raises(ConfigurationError) as caught:
        await start_working(backend)
    await backend.close()
    assert missing in str(caught.value)
    assert f"ACL SETUSER {user} " in str(caught.value)
    assert "secret" not in str(caught.value)


async def start_working(backend: Store) -> None:
    """What a worker does first."""
    await backend.open()
    await backend.declare_stream(SOURCE, HOUR)


async def test_a_user_who_may_not_listen_is_refused(redis_server: Server, user: str) -> None:
    deny(redis_server, user, "-subscribe")
    with pytest.raises(ConfigurationError, match="subscribe"):
        await open_store(url_of(redis_server, user), namespace=user).open()


async def test_a_server_that_tells_nothing_of_itself_is_used(redis_server: Server, user: str) -> None:
    deny(redis_server, user, "-info", "-config", "-client")
    async with opened(url_of(redis_server, user), user) as bench:
        assert bench.backend.description.startswith("Redis at ")
        await everything(bench)


async def test_probing_changes_nothing(redis_server: Server) -> None:
    before = redis_server.command("DBSIZE")
    backend = open_store(redis_server.url, namespace=new_id())
    await backend.open()
    await backend.close()
    assert redis_server.command("DBSIZE") == before


async def test_a_namespace_of_another_format_is_refused_and_not_touched(redis_server: Server) -> None:
    namespace = new_id()
    app = App(redis_server.url, namespace=namespace)

    @app.task(name="greet")
    async def greet() -> None: ...

    async with app:
        await greet.enqueue()
        redis_server.command("SET", f"{{{namespace}:streams}}:format", "v99")
    with pytest.raises(ConfigurationError, match=r"in format v99 .* knows format v1"):
        await open_store(redis_server.url, namespace=namespace).open()
    redis_server.command("SET", f"{{{namespace}:streams}}:format", "v1")
    async with app:
        assert [queue.queued for queue in await app.admin.queues()] == [1]


async def test_a_node_of_a_cluster_is_refused(tmp_path: Path) -> None:
    arguments = ["--cluster-enabled", "yes"]
    with (
        Server(require("redis-7.0"), directory=tmp_path, arguments=arguments) as server,
        pytest.raises(ConfigurationError, match="cluster"),
    ):
        await open_store(server.url).open()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"appendonly": True}, None),
        ({"arguments": ["--save", "3600 1"]}, "after its last snapshot"),
        ({}, "keeps nothing on disk"),
    ],
)
async def test_a_server_that_may_forget_is_told_of_once(
    options: dict[str, Any],
    words: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notices, "_warned", set())
    with Server(require("redis-7.0"), directory=tmp_path, **options) as server, caplog.at_level(logging.INFO):
        for _ in range(2):
            backend = open_store(server.url)
            await backend.open()
            await backend.close()
    said = [record.getMessage() for record in caplog.records if record.name == "headrace"]
    assert len(said) == (words is not None)
    assert words is None or words in said[0]


@pytest.mark.parametrize(("command", "times"), [("status", 0), ("publish", 1)])
def test_a_command_that_only_looks_does_not_tell_it(
    command: str,
    times: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notices, "_warned", set())
    module: Any = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    with Server(require("redis-7.0"), directory=tmp_path) as server:
        module.app = App(server.url)
        module.app.topic("orders")
        words = ["shop:app", "orders", "{}"] if command == "publish" else ["shop:app"]
        result = CliRunner().invoke(cli, [command, *words])
    assert result.exit_code == 0, result.output
    assert caplog.text.count("keeps nothing on disk") == times


@pytest.mark.parametrize("kind", ["valkey-9.1", *also("redis-7.0")])
async def test_of_a_server_that_loads_its_file_it_is_not_said_that_it_keeps_none(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(require(kind), directory=tmp_path, appendonly=True) as server:
        server.command("EVAL", "for key = 1, 20000 do redis.call('SET', key, '') end", 0)
    slowly = Server(require(kind), directory=tmp_path, appendonly=True, arguments=["--key-load-delay", "100"])
    slowly._port = server.port
    starting = asyncio.create_task(asyncio.to_thread(slowly.start))
    try:
        backend = open_store(server.url)
        await wait_until(lambda: _is_loading(server))
        with pytest.raises(BackendUnavailable, match="loading"):
            await backend.open()
        await starting
        await backend.open()
        await backend.close()
        assert "are gone" not in caplog.text
    finally:
        await starting
        slowly.kill()


def _is_loading(server: Server) -> bool:
    with contextlib.suppress(OSError):
        return b"loading:1" in str(server.command("INFO", "persistence")).encode()
    return False


async def test_a_worker_process_waits_for_a_server_that_is_not_up_yet(tmp_path: Path) -> None:
    server = Server(require("valkey-9.1"), directory=tmp_path / "server")
    with server:
        pass  # it has its port
    workshop = Workshop(server.url, tmp_path)
    try:
        stopped, waiting = workshop.start(), workshop.start()
        for worker in (stopped, waiting):
            await workshop.until(lambda worker=worker: "store unavailable, waits" in worker.output)
        stopped.send(signal.SIGTERM)
        assert stopped.exit_code(timeout=5) == 0
        with server:
            job = await workshop.task("quick").enqueue(7)
            await job.wait(timeout=20)
            waiting.send(signal.SIGTERM)
            assert waiting.exit_code() == 0
    finally:
        await workshop.close()
