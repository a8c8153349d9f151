"""Each role can be played under the smallest access list for it, and under that list nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from headrace import App, JobStatus
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.core.records.findings import Level
from headrace.core.runtime.clock import SECOND
from headrace.core.topics.topic import BEGINNING, TopicRules
from headrace.engine.streams import StreamRouter
from headrace.stores.redis.health.permissions import CLUSTERED, ROLES, WATCHED, Role, rules_for
from headrace.testing.contract.kit.stand import inner_of
from tests.integration.support.access_roles import (
    BILLS,
    JOBS,
    MAILS,
    PLAIN,
    QUEUE,
    TOPIC,
    produce,
    read,
    work,
)
from tests.support.queue_split_steps import propose, seal
from tests.support.routers import open_router
from tests.support.server_groups import Cluster, Watched
from tests.support.servers import HOST, Server

Play = Callable[[StreamRouter, str], Awaitable[None]]

#: Each goes on where the one before it has stopped.
PARTS: dict[Role, Play] = {"producer": produce, "worker": work, "reader": read}


@pytest.fixture
def namespace(redis_server: Server) -> Iterator[str]:
    """One for the test; no other is touched, by any user."""
    yield (name := f"acl-{new_id()}")
    script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"
    redis_server.command("EVAL", script, 0, f"*{name}:*")


@contextmanager
def user_of(server: Server, namespace: str, role: Role) -> Iterator[str]:
    """The URL of a user with the smallest rights for a role."""
    name = f"{role}-{namespace}"
    server.command("ACL", "SETUSER", name, "on", ">secret", *rules_for(namespace, role).split())
    try:
        yield f"redis://{name}:secret@{HOST}:{server.port}"
    finally:
        server.command("ACL", "DELUSER", name)


@asynccontextmanager
async def backend_of(server: Server, namespace: str, role: Role) -> AsyncIterator[StreamRouter]:
    with user_of(server, namespace, role) as url:
        async with opened(url, namespace) as backend:
            yield backend


@asynccontextmanager
async def opened(url: str, namespace: str) -> AsyncIterator[StreamRouter]:
    backend = open_router(url, namespace=namespace)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


async def play(server: Server, namespace: str, role: Role, part: Play) -> None:
    async with backend_of(server, namespace, role) as backend:
        await part(backend, server.url)


async def test_each_role_is_played_under_its_own_rights(redis_server: Server, namespace: str) -> None:
    for role, part in PARTS.items():
        await play(redis_server, namespace, role, part)


async def test_each_role_is_played_on_streams_that_are_split(redis_server: Server, namespace: str) -> None:
    async with backend_of(redis_server, namespace, "everything") as steering:
        for stream in (QUEUE, TOPIC):
            await steering.split(stream, 3)
    for role, part in PARTS.items():
        await play(redis_server, namespace, role, part)


@pytest.mark.parametrize("role", ["producer", "worker"])
async def test_whoever_publishes_finishes_a_change_that_stopped_half_way(
    redis_server: Server, namespace: str, role: Role
) -> None:
    await play(redis_server, namespace, "worker", produce)
    await play(redis_server, namespace, "worker", work)
    async with backend_of(redis_server, namespace, "everything") as steering:
        store = inner_of(steering)
        await propose(store, QUEUE, 3)
        await seal(store, QUEUE)  # and here the process that steers is killed
    await play(redis_server, namespace, role, produce)
    async with backend_of(redis_server, namespace, "worker") as backend:
        assert (await backend.layout(QUEUE)).current.parts == 3
        await backend.declare_stream(BILLS, 15 * SECOND)
        assert await backend.claim([MAILS, BILLS], consumer="worker", limit=100, suspects=0, wait=0)


@pytest.mark.more
async def test_on_a_cluster_each_role_needs_little_more(tmp_path: Path) -> None:
    with Cluster("redis-7.0", tmp_path) as cluster:
        for role, part in PARTS.items():
            rules = [*rules_for("acl", role).split(), *(f"+{name}" for name in CLUSTERED)]
            for server in cluster.servers:
                server.command("ACL", "SETUSER", role, "on", ">secret", *rules)
            url = cluster.url.replace("://", f"://{role}:secret@")
            async with opened(url, "acl") as backend:
                await part(backend, cluster.url)


@pytest.mark.more
async def test_behind_sentinels_each_role_needs_little_more(tmp_path: Path) -> None:
    with Watched("redis-7.0", tmp_path) as watched:
        for role, part in PARTS.items():
            rules = [*rules_for("acl", role).split(), *(f"+{name}" for name in WATCHED)]
            for server in watched.data:
                server.command("ACL", "SETUSER", role, "on", ">secret", *rules)
            async with opened(watched.url.replace("://", f"://{role}:secret@"), "acl") as backend:
                await part(backend, watched.url)


async def test_a_worker_may_also_produce(redis_server: Server, namespace: str) -> None:
    await play(redis_server, namespace, "worker", produce)


async def test_a_reader_is_let_in_and_refused_as_soon_as_it_changes_anything(
    redis_server: Server, namespace: str
) -> None:
    await play(redis_server, namespace, "producer", produce)
    [id] = await waiting(redis_server, namespace)
    async with backend_of(redis_server, namespace, "reader") as backend:
        for act, role in (
            (lambda: backend.append(batch()), "producer"),
            (lambda: backend.declare_topic(TOPIC, TopicRules()), "producer"),
            (lambda: backend.declare_stream(JOBS, 15 * SECOND), "worker"),
            (lambda: backend.join(PLAIN, BEGINNING), "worker"),
        ):
            with pytest.raises(ConfigurationError, match=f"what a {role} needs: .*PUBLISH.*ACL SETUSER"):
                await act()
        for change in (
            lambda: backend.pause(QUEUE, paused=True),
            lambda: backend.purge(QUEUE, ttl_us=0, limit=10),
            lambda: backend.cancel(QUEUE, id, ttl_us=0),
        ):
            with pytest.raises(BackendUnavailable, match="denies this user a right"):
                await change()
    assert [id] == await waiting(redis_server, namespace)


async def test_an_app_of_a_reader_shows_everything(redis_server: Server, namespace: str) -> None:
    for role in ("producer", "worker"):
        await play(redis_server, namespace, role, PARTS[role])
    with user_of(redis_server, namespace, "reader") as url:
        async with App(url, namespace=namespace) as app:
            app.topic("orders", int)
            assert [queue.name for queue in await app.admin.queues()] == ["work"]
            assert [topic.name for topic in await app.admin.topics()] == ["orders"]
            assert await app.admin.jobs("work")
            [letter, *_] = await app.admin.dead()
            assert await app.admin.job(letter.id)
            assert await app.admin.contents(letter.id)
            assert await app.admin.traffic()
            assert await app.admin.workers() == []
            assert [each async for each in app.admin.tail("orders", since="beginning", follow=False)]
            assert await app.schedules.list() is not None
            assert [each.name for each in await app.admin.doctor() if each.level is Level.FAIL] == []


async def test_a_reader_passes_over_what_was_deleted_by_hand(redis_server: Server, namespace: str) -> None:
    await play(redis_server, namespace, "producer", produce)
    [id] = await waiting(redis_server, namespace)
    hash_of_messages = f"{{{namespace}:q:work}}:msg"
    redis_server.command("DEL", hash_of_messages)
    async with backend_of(redis_server, namespace, "reader") as backend:
        assert await backend.get(QUEUE, id) is None


async def test_a_producer_cannot_take_work(redis_server: Server, namespace: str) -> None:
    async with backend_of(redis_server, namespace, "producer") as backend:
        await backend.append(batch())
        with pytest.raises(ConfigurationError, match=r"what a worker needs: .*XREADGROUP"):
            await backend.declare_stream(JOBS, 15 * SECOND)


async def test_a_worker_of_a_user_who_may_only_produce_does_not_start(
    redis_server: Server, namespace: str
) -> None:
    with user_of(redis_server, namespace, "producer") as url:
        async with App(url, namespace=namespace) as app:
            with pytest.raises(ConfigurationError, match="what a worker needs"):
                async with app.worker():
                    pytest.fail("it has started")


async def test_rights_that_are_given_later_count_without_a_restart(
    redis_server: Server, namespace: str
) -> None:
    async with backend_of(redis_server, namespace, "reader") as backend:
        with pytest.raises(ConfigurationError):
            await backend.append(batch())
        rules = rules_for(namespace, "producer").split()
        redis_server.command("ACL", "SETUSER", f"reader-{namespace}", *rules)
        [answer] = await backend.append(batch())
        assert answer.verdict == "accepted"


@pytest.mark.parametrize("role", ["reader", "producer", "worker"])
async def test_other_namespaces_are_out_of_reach(redis_server: Server, namespace: str, role: Role) -> None:
    with (
        user_of(redis_server, namespace, role) as url,
        pytest.raises(ConfigurationError, match="EVALSHA"),
    ):
        await open_router(url, namespace=f"{namespace}-other").open()


def test_a_reader_has_no_command_that_writes(redis_server: Server) -> None:
    names = sorted({name.partition("|")[0] for name in ROLES["reader"]} - {"evalsha", "script"})
    assert redis_server.command("EVAL", WRITES, 0, *names) == b""


#: The names of those among the arguments that the server itself calls writing.
WRITES = """
local found = {}
for _, name in ipairs(ARGV) do
  local info = redis.call('COMMAND', 'INFO', name)[1]
  for _, flag in ipairs(info[3]) do
    if (flag.ok or flag) == 'write' then found[#found + 1] = name end
  end
end
return table.concat(found, ' ')
"""


def batch() -> Batch:
    return Batch(QUEUE, new_id(), 1, [Message(new_id(), "greet", b"")])


async def waiting(server: Server, namespace: str) -> list[str]:
    """A delayed job, read with all permissions."""
    async with backend_of(server, namespace, "everything") as backend:
        page = await backend.messages(QUEUE, status=JobStatus.SCHEDULED, limit=1)
        return [record.id for record in page]
