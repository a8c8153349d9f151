"""`headrace doctor` on real servers: each of its lines is provoked, and each is once ok."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import App
from headrace.core.messages.ids import new_id
from headrace.stores.redis.client.address import parse_address
from headrace.stores.redis.client.connection import Link
from headrace.stores.redis.health import diagnosis, examination
from headrace.stores.redis.health.examination import examine_server
from headrace.stores.redis.health.permissions import Role, rules_for
from tests.integration.redis_connections.test_tls import Secured
from tests.integration.support.lossy_proxy import Proxy
from tests.integration.support.redis_bench import opened
from tests.support.doctor_findings import FAIL, OK, WARN, Findings, examine, examined
from tests.support.server_groups import SLOTS, Cluster, Watched
from tests.support.servers import HOST, Server, require
from tests.support.waiting import wait_until, wait_until_sync


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(require("redis-7.0"), directory=tmp_path / "server") as server:
        yield server
        server.kill()  # nothing of it is wanted on disk, for which some would take their time


@contextmanager
def replica_of(server: Server, tmp_path: Path, *arguments: str) -> Iterator[Server]:
    """One that is connected, but may not have its copy yet."""
    words = ["--replicaof", f"{HOST} {server.port}", *arguments]
    with Server(server.program, directory=tmp_path / "replica", arguments=words) as replica:
        wait_until_sync(lambda: b"slave0:" in info(server, "replication"))
        yield replica


def info(server: Server, section: str) -> bytes:
    answer = server.command("INFO", section)
    assert isinstance(answer, bytes)
    return answer


# --- the server ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "level"), [("redis-6.2", WARN), ("redis-7.0", WARN), ("valkey-9.1", OK)])
async def test_known_bad_versions_are_named(kind: str, level: str, tmp_path: Path) -> None:
    with Server(require(kind), directory=tmp_path) as server:
        found = await examine(server.url)
    assert found.level("server") == level
    assert ("CVE-2025-49844" in found["server"].text) == (level is WARN)


async def test_a_server_that_tells_nothing_is_examined_all_the_same(server: Server) -> None:
    rules = rules_for("headrace").split()
    server.command("ACL", "SETUSER", "app", "on", ">secret", *rules, "-info", "-config")
    found = await examine(f"redis://app:secret@{HOST}:{server.port}")
    assert found.level("server") == WARN
    assert found.level("memory") == WARN
    assert found["persistence"].text == "not known"
    assert found.level("latency") == OK


@pytest.mark.parametrize(
    ("setting", "level", "words"),
    [
        ({"appendonly": "no", "save": ""}, WARN, "nothing on disk"),
        ({"appendonly": "no", "save": "3600 1"}, WARN, "last snapshot"),
        ({"appendonly": "yes", "appendfsync": "no"}, WARN, "when the system likes"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, OK, "that second"),
        ({"appendonly": "yes", "appendfsync": "always"}, OK, "nothing is lost"),
    ],
)
async def test_what_the_server_forgets_is_said_honestly(
    server: Server, setting: dict[str, str], level: str, words: str
) -> None:
    for name, value in setting.items():
        server.command("CONFIG", "SET", name, value)
    found = await examine(server.url)
    assert found.level("persistence") == level
    assert words in found["persistence"].text


async def test_a_snapshot_that_could_not_be_written_is_a_failure(server: Server) -> None:
    server.command("CONFIG", "SET", "save", "3600 1")
    shutil.rmtree(server.directory)
    server.command("BGSAVE")
    wait_until_sync(lambda: b"rdb_last_bgsave_status:err" in info(server, "persistence"))
    found = await examine(server.url)
    assert found.level("persistence") == FAIL
    server.directory.mkdir()  # where its log goes


async def test_a_policy_that_evicts_is_told(server: Server) -> None:
    async with App(server.url) as app:
        assert (await examined(app)).level("eviction") == OK
        server.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        assert (await examined(app)).level("eviction") == WARN
        server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert (await examined(app)).level("eviction") == FAIL


@pytest.mark.parametrize(("share", "level"), [(0.5, OK), (0.88, WARN), (0.98, FAIL)])
async def test_memory_that_runs_short_is_told(server: Server, share: float, level: str) -> None:
    server.command("SETRANGE", "filler", 60_000_000, "x")
    [used] = re.findall(rb"used_memory:(\d+)", info(server, "memory"))
    server.command("CONFIG", "SET", "maxmemory", round(int(used) / share))
    found = await examine(server.url)
    assert found.level("memory") == level
    assert "of maxmemory" in found["memory"].text


async def test_the_quick_part_is_logged_once_in_a_process(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.command("SETRANGE", "filler", 60_000_000, "x")
    server.command("CONFIG", "SET", "maxmemory", 75_000_000)
    server.command("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            async with App(server.url):
                server.command("SETRANGE", "more", 100_000, "x")  # so that another number would be told
    said = [record.getMessage() for record in caplog.records if record.name == "headrace"]
    for name in ("(memory)", "(eviction)", "(persistence)"):
        assert sum(name in line for line in said) == 1


async def test_without_a_limit_the_machine_is_the_limit(server: Server) -> None:
    found = await examine(server.url)
    assert found.level("memory") == OK
    assert "no maxmemory" in found["memory"].text


async def test_memory_that_is_held_but_not_used_is_told(server: Server) -> None:
    assert (await examine(server.url)).level("fragmentation") == OK
    fill = "for i = ARGV[1], ARGV[1] + 9999 do redis.call('SET', 'k' .. i, string.rep('x', 450)) end"
    thin = "for i = ARGV[1], ARGV[1] + 9999 do if i % 20 > 0 then redis.call('DEL', 'k' .. i) end end"
    for script in (fill, thin):
        for first in range(0, 250_000, 10_000):  # in steps: on a busy machine all at once take too long
            server.command("EVAL", script, 0, first)
    assert (await examine(server.url)).level("fragmentation") == WARN


# --- replicas --------------------------------------------------------------------------------------------


async def test_replicas_are_counted_and_those_behind_are_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await examine(server.url)).level("replication") == OK
    server.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
    with replica_of(server, tmp_path) as replica:
        wait_until_sync(lambda: b"state=online" in info(server, "replication"))
        found = await examine(server.url)
        assert found.level("replication") == OK
        assert "1 replica online" in found["replication"].text

        directly = await examine(replica.url)
        assert directly.level("replication") == FAIL
        assert f"{HOST}:{server.port}" in directly["replication"].text

        monkeypatch.setattr(diagnosis, "LAG", -1)
        found = await examine(server.url)
        assert found.level("replication") == WARN
        assert f"{HOST}:{replica.port}" in found["replication"].text


async def test_a_replica_that_has_no_copy_yet_is_behind(server: Server, tmp_path: Path) -> None:
    server.command("CONFIG", "SET", "repl-diskless-sync", "yes")
    server.command("CONFIG", "SET", "repl-diskless-sync-delay", "60")
    with replica_of(server, tmp_path):
        found = await examine(server.url, durability="replicated")
    assert found.level("replication") == WARN
    assert found.level("durability") == FAIL


@pytest.mark.more
async def test_behind_sentinels_the_primary_is_examined(tmp_path: Path) -> None:
    with Watched("valkey-9.1", tmp_path) as watched:
        found = await examine(watched.url)
    assert found.level("replication") == found.level("connection") == OK
    assert "2 replicas online" in found["replication"].text


async def test_a_level_of_durability_that_cannot_be_had_is_a_failure(tmp_path: Path) -> None:
    with Server(require("valkey-9.1"), directory=tmp_path / "server", appendonly=True) as server:
        assert (await examine(server.url)).level("durability") == OK
        assert (await examine(server.url, durability="replicated")).level("durability") == FAIL
        server.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        with replica_of(server, tmp_path):
            wait_until_sync(lambda: b"state=online" in info(server, "replication"))
            assert (await examine(server.url, durability="replicated")).level("durability") == OK
        server.command("CONFIG", "SET", "appendfsync", "everysec")
        async with App(server.url, durability="fsync") as app:
            assert "may take a second" in (await examined(app))["durability"].text
            server.command("CONFIG", "SET", "appendfsync", "always")
            assert (await examined(app)).level("durability") == OK
            server.command("CONFIG", "SET", "appendfsync", "no")
            assert (await examined(app)).level("durability") == FAIL
            server.command("CONFIG", "SET", "appendfsync", "always")
            server.command("CONFIG", "SET", "appendonly", "no")
            assert (await examined(app)).level("durability") == FAIL


# --- a node of a cluster ---------------------------------------------------------------------------------


async def test_a_cluster_of_which_slots_are_missing_is_a_failure(tmp_path: Path) -> None:
    arguments = ["--cluster-enabled", "yes"]
    with Server(require("redis-7.0"), directory=tmp_path, arguments=arguments) as server:
        assert (await examine_node(server)).level("cluster") == FAIL
        server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until_sync(lambda: b"cluster_state:ok" in bytes(cluster_info(server)))
        assert (await examine_node(server)).level("cluster") == OK


@pytest.mark.more
async def test_of_a_cluster_every_primary_is_examined(tmp_path: Path) -> None:
    with Cluster("valkey-9.1", tmp_path) as cluster:
        async with App(cluster.url) as app:
            found = await examined(app)
            assert found.level("server") == found.level("cluster") == found.level("replication") == OK
            assert found.level("rights") == found.level("consumers") == OK
            for server in cluster.servers[:2]:
                server.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
            found = await examined(app)
            assert found.level("eviction") == WARN
            places = found["eviction"].text.partition(": volatile-lru")[0]
            assert set(places.split(", ")) == {f"{HOST}:{server.port}" for server in cluster.servers[:2]}

            lost = [server for server in cluster.servers if is_of(cluster, server, cluster.owner(0))]
            for server in lost:
                server.kill()
            await wait_until(lambda: b"cluster_state:fail" in cluster_info(cluster.owner(SLOTS - 1)))
            found = await examined(app)
        assert {each.level for each in found.all if each.name in ("server", "cluster")} == {FAIL}
        assert any("cannot be reached" in each.text for each in found.all if each.name == "server")


def is_of(cluster: Cluster, server: Server, primary: Server) -> bool:
    """Whether it is this primary or a replica of it."""
    return server is primary or f"master_port:{primary.port}\r\n".encode() in info(server, "replication")


def cluster_info(server: Server) -> bytes:
    answer = server.command("CLUSTER", "INFO")
    assert isinstance(answer, bytes)
    return answer


async def examine_node(server: Server) -> Findings:
    link = Link(parse_address(server.url))
    try:
        return Findings(await examine_server(await link.connected(), "default"))
    finally:
        link.drop()


# --- the way there ---------------------------------------------------------------------------------------


async def test_plain_text_is_told_where_others_can_listen(server: Server, tmp_path: Path) -> None:
    assert (await examine(server.url)).level("connection") == OK
    # The name leads to this machine, but the doctor cannot know that from the name.
    found = await examine(server.url.replace(HOST, "0.0.0.0"))
    assert found.level("connection") == WARN


async def test_a_socket_is_nobody_elses(tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    arguments = ["--unixsocket", str(socket)]
    with Server(require("redis-7.0"), directory=tmp_path / "server", arguments=arguments):
        assert (await examine(f"unix://{socket}")).level("connection") == OK


async def test_tls_is_ok_if_it_verifies(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with secured.server:
        assert (await examine(secured.url())).level("connection") == OK
        nameless = await examine(secured.url(ssl_check_hostname="false"))
        assert nameless.level("connection") == WARN
        blind = await examine(f"rediss://{HOST}:{secured.port}?ssl_cert_reqs=none")
        assert blind.level("connection") == WARN


async def test_a_slow_way_is_told(server: Server) -> None:
    assert (await examine(server.url)).level("latency") == OK
    async with Proxy(server.port) as proxy, App(proxy.url) as app:
        proxy.delay = 0.05
        assert (await examined(app)).level("latency") == WARN


async def test_a_clock_that_differs_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await examine(server.url)).level("clock") == OK
    for hour in (-3600, 3600):
        monkeypatch.setattr(examination, "time", lambda wrong=hour: time.time() + wrong)
        found = await examine(server.url)
        assert found.level("clock") == WARN
        assert "3,600" in found["clock"].text


# --- rights, and what lies about -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "level"), [("everything", OK), ("worker", OK), ("producer", WARN), ("reader", WARN)]
)
async def test_what_a_user_may_be_is_told(server: Server, role: Role, level: str) -> None:
    server.command("ACL", "SETUSER", role, "on", ">secret", *rules_for("headrace", role).split())
    found = await examine(f"redis://{role}:secret@{HOST}:{server.port}")
    assert found.level("rights") == level
    assert "secret" not in found["rights"].text + found["rights"].remedy
    assert ("contents" in found) == (role in ("worker", "producer"))  # they need not list workers


async def test_rights_that_were_taken_away_are_a_failure(server: Server) -> None:
    server.command("ACL", "SETUSER", "app", "on", ">secret", *rules_for("headrace").split())
    async with App(f"redis://app:secret@{HOST}:{server.port}") as app:
        assert (await examined(app)).level("rights") == OK
        server.command("ACL", "SETUSER", "app", "-smembers")
        found = await examined(app)
        assert found.level("rights") == FAIL
        assert "SMEMBERS" in found["rights"].text
        assert found.level("consumers") == found.level("contents") == WARN


async def test_what_workers_hold_that_are_gone_is_told(redis_server: Server) -> None:
    namespace = new_id()
    async with opened(redis_server.url, namespace) as bench:
        await bench.add(3)
        await bench.claim(consumer="lost-worker")
        assert (await examine(redis_server.url, namespace=namespace)).level("consumers") == OK
        await bench.age(100)
        found = await examine(redis_server.url, namespace=namespace)
        assert found.level("consumers") == WARN
        assert "3 messages" in found["consumers"].text
        assert "lost-worker" in found["consumers"].text


# --- several at once -------------------------------------------------------------------------------------


async def test_a_doctor_beside_working_workers_disturbs_nobody(server: Server) -> None:
    app = App(server.url)
    done: list[int] = []

    @app.task
    async def count(number: int) -> None:
        done.append(number)

    async with app, app.worker():
        jobs = asyncio.create_task(app.enqueue_many([count.call(number) for number in range(200)]))
        found = await examined(app)
        await jobs
        await wait_until(lambda: len(done) == 200)
        assert found.level("workers") == OK
