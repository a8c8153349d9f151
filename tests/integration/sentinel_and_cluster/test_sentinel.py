"""Behind Sentinel: the primary is killed, moved and mistaken for another, and work goes on by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import App, JobStatus
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message
from headrace.core.records.answers import Renewal
from headrace.core.runtime.clock import SECOND
from headrace.core.store import LeaseKeeper
from headrace.stores import open_store
from headrace.stores.redis.client import connection, first_answer
from headrace.stores.redis.store import RedisStore
from tests.integration.support.redis_bench import SOURCE, STREAM
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import LEASE, Workshop
from tests.support.server_groups import MASTER, Watched
from tests.support.servers import HOST, Server, ServerError
from tests.support.waiting import wait_until

#: How soon sentinels agree depends on the machine.
pytestmark = pytest.mark.timeout(180)

#: Seconds after the promotion within which work goes on.
SOON = 10.0

#: Seconds before the loss of a primary of which the default durability may lose jobs.
WINDOW = 2.0


@pytest.fixture
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with Watched(getattr(request, "param", "valkey-9.1"), tmp_path / "servers") as watched:
        yield watched


@pytest.fixture
async def backend(watched: Watched) -> AsyncIterator[RedisStore]:
    backend = open_store(watched.url)
    assert isinstance(backend, RedisStore)
    await backend.open()
    await backend.declare_stream(SOURCE, 15 * SECOND)
    yield backend
    await backend.close()


@pytest.fixture
async def workshop(
    request: pytest.FixtureRequest, watched: Watched, tmp_path: Path
) -> AsyncIterator[Workshop]:
    workshop = Workshop(watched.url, tmp_path, durability=getattr(request, "param", "default"))
    yield workshop
    await workshop.close()


def batch(number: int = 1) -> Batch:
    return Batch(STREAM, "producer", number, [Message(new_id(), "greet", b"hello")])


async def promoted(watched: Watched, old: Server, *, replicas: int = 0) -> float:
    """Wait for another primary; answers when it was seen, on the clock of the log."""
    await asyncio.to_thread(watched.until_promoted, old, replicas=replicas)
    return time.time()


# --- under load ------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("workshop", ["replicated"], indirect=True)
async def test_nothing_reported_safe_is_lost_with_the_primary(watched: Watched, workshop: Workshop) -> None:
    for _ in range(2):
        await workshop.start_ready()
    feeder = workshop.start_feeder(1_000_000)
    async with Load(workshop, may_be_refused=True) as load:
        await workshop.until(lambda: workshop.log.lines("accepted"))
        old = watched.primary()
        old.kill()
        at = await promoted(watched, old, replicas=1)
        assert await load.until_work_goes_on(at) <= SOON
        await workshop.until(lambda: [line for line in workshop.log.lines("accepted") if line["at"] > at])
        assert workshop.log.lines("accepted")[-1]["at"] - at <= SOON + 5
        await load.until_accepted(50)
    feeder.kill()
    fed = {number for line in workshop.log.lines("accepted") for number in line["numbers"]}
    await workshop.until(lambda: load.runs().keys() >= fed | load.accepted.keys())
    assert not any(worker.ended for worker in workshop.workers if worker is not feeder)


@pytest.mark.more
@pytest.mark.parametrize("watched", ["redis-7.0"], indirect=True)
async def test_by_default_only_what_was_accepted_just_before_the_loss_may_be_lost(
    watched: Watched, workshop: Workshop
) -> None:
    for _ in range(2):
        await workshop.start_ready()
    async with Load(workshop, may_be_refused=True) as load:
        old, killed_at = watched.primary(), time.time()
        old.kill()
        assert await load.until_work_goes_on(await promoted(watched, old)) <= SOON
        await load.until_accepted(50)
    safe = {number for number, at in load.accepted.items() if not killed_at - WINDOW < at <= killed_at}
    await workshop.until(lambda: load.runs().keys() >= safe)


async def test_a_failover_that_somebody_asks_for_is_followed(watched: Watched, workshop: Workshop) -> None:
    await workshop.start_ready()
    async with Load(workshop, may_be_refused=True) as load:
        old = watched.primary()
        watched.sentinels[0].command("SENTINEL", "FAILOVER", MASTER)
        assert await load.until_work_goes_on(await promoted(watched, old)) <= SOON
        await load.until_accepted(50)


@pytest.mark.more
async def test_a_primary_without_its_replicas_for_longer_than_a_lease_costs_nobody_a_job(
    watched: Watched, workshop: Workshop
) -> None:
    lease, primary = 4 * LEASE, watched.primary()
    primary.command("CONFIG", "SET", "min-replicas-to-write", 1)
    primary.command("CONFIG", "SET", "min-replicas-max-lag", 2)
    await workshop.start_ready(lease=lease)
    naps = [await workshop.task("nap").enqueue(5 * lease) for _ in range(20)]
    await workshop.until(lambda: len(workshop.log.lines("started")) == len(naps))
    for _ in range(2):
        await workshop.start_ready(lease=lease)  # they could take them
    replicas = [server for server in watched.data if server is not primary]
    for server in replicas:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        await workshop.until(lambda: refuses(primary))
        back_at = time.monotonic() + 1.4 * lease
        await workshop.until(lambda: time.monotonic() >= back_at)
        assert refuses(primary)
    finally:
        for server in replicas:
            os.kill(server.pid, signal.SIGCONT)
    for nap in naps:
        assert await nap.result(timeout=60) == "rested"
    assert len(workshop.log.lines("started")) == len(naps)
    assert workshop.log.lines("lost") == []


def refuses(server: Server) -> bool:
    """Whether it takes no changes for want of replicas."""
    try:
        server.command("SET", "probe", 1)
    except ServerError as error:
        return "NOREPLICAS" in str(error)
    return False


@pytest.mark.more
@pytest.mark.parametrize("way", ["all replicas are demanded", "writes are paused"])
async def test_nothing_reported_safe_is_lost_by_a_failover_that_somebody_asks_for(
    watched: Watched, way: str
) -> None:
    """Sentinels promote a replica while the old primary still takes jobs, which the other one confirms."""
    old = watched.primary()
    for server in watched.data:
        demanded = 2 if way == "all replicas are demanded" else 1
        server.command("CONFIG", "SET", "min-replicas-to-write", demanded)
    async with App(watched.url, durability="replicated") as app:

        @app.task(name="note")
        async def note() -> None: ...

        safe: list[str] = []

        async def feed() -> None:
            while True:
                with contextlib.suppress(BackendUnavailable):
                    safe.append((await note.enqueue()).id)

        async with asyncio.TaskGroup() as feeders:
            feeding = [feeders.create_task(feed()) for _ in range(10)]
            await wait_until(lambda: len(safe) > 1000)
            if way == "writes are paused":
                old.command("CLIENT", "PAUSE", 20_000, "WRITE")
            watched.sentinels[0].command("SENTINEL", "FAILOVER", MASTER)
            await promoted(watched, old, replicas=demanded)
            before = len(safe)
            await wait_until(lambda: len(safe) > before + 1000, timeout=30)
            for feeder in feeding:
                feeder.cancel()
        stored = watched.primary().command("HKEYS", "{headrace:q:default}:ids")
        assert isinstance(stored, list)
        assert {id.encode() for id in safe} <= set(stored)


# --- looking and waiting ---------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("watched", ["redis-7.0"], indirect=True)
@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_failover_is_no_error_to_whoever_waits_looks_or_steers(
    watched: Watched, loss: signal.Signals
) -> None:
    """Jobs end while no server can be reached. Their callers get the answer from the new primary."""
    app = App(watched.url, durability="replicated")
    go, old = asyncio.Event(), watched.primary()

    @app.task(name="double")
    async def double(number: int) -> int:
        await go.wait()
        return 2 * number

    async with App(watched.url) as waiting, app, app.worker():
        jobs = [await double.enqueue(number) for number in range(20)]
        results = [
            asyncio.create_task(waiting.job(job.id, queue=queue).result(timeout=60))
            for job in jobs
            for queue in ("default", None)
        ]
        await wait_until(lambda: registered(old) == len(jobs))
        os.kill(old.pid, loss)
        try:
            go.set()
            later = await double.with_(delay=3600).enqueue(1)
            assert {await job.wait(timeout=60) for job in jobs[:3]} == {JobStatus.SUCCEEDED}
            assert (await asyncio.gather(*results))[::2] == [2 * number for number in range(20)]
            assert await later.status() is JobStatus.SCHEDULED
        finally:
            os.kill(old.pid, signal.SIGCONT)


@pytest.mark.more
@pytest.mark.parametrize("watched", ["redis-7.0"], indirect=True)
async def test_looking_and_steering_outlast_a_primary_that_hangs(watched: Watched) -> None:
    """Each verb is under way on a connection that leads nowhere any more."""
    async with App(watched.url, durability="replicated") as app:

        @app.task(name="double")
        async def double(number: int) -> int:
            return 2 * number

        other = double.with_(queue="other", delay=3600)
        job, purged = await double.enqueue(1), await app.enqueue_many([other.call(n) for n in range(300)])
        old = watched.primary()
        os.kill(old.pid, signal.SIGSTOP)
        try:
            verbs: dict[str, Coroutine[Any, Any, Any]] = {
                "status": job.status(),
                "queues": app.admin.queues(),
                "pause": app.admin.pause("default"),
                "purge": app.admin.purge("other"),
                "schedules": app.schedules.list(),
                "cancel": job.cancel(),
            }
            answers = dict(zip(verbs, await asyncio.gather(*verbs.values()), strict=True))
        finally:
            os.kill(old.pid, signal.SIGCONT)
        assert answers["cancel"] is True
        assert answers["purge"] == len(purged) or answers["purge"].uncertain
        assert [queue.name for queue in await app.admin.queues() if queue.paused] == ["default"]


def registered(server: Server) -> int:
    """The number of jobs whose end a caller waits for."""
    answer = server.command("HLEN", "{headrace:q:default}:w")
    assert isinstance(answer, int)
    return answer


# --- one connection --------------------------------------------------------------------------------------


async def test_a_stale_connection_is_told_readonly_and_made_anew(
    watched: Watched, backend: RedisStore
) -> None:
    await backend.append(batch())
    (claim,) = await backend.claim([SOURCE], consumer="worker", limit=1, suspects=1, wait=0)
    leases = backend.lease_keeper()
    await leases.renew([claim])
    new = move_by_hand(watched)
    with pytest.raises(BackendUnavailable, match="READONLY") as caught:
        await backend.append(batch(2))
    assert caught.value.transient
    await wait_until(lambda: appended(backend, batch(2)))
    # The lease is renewed on a connection of its own, which was stale as well.
    await wait_until(lambda: renewed(leases, claim))
    await leases.close()
    # The new server was examined like the first one. After the change no job is recovered for one lease.
    assert f"run_id:{backend._store.server.run_id}" in str(new.command("INFO", "server"))


@pytest.mark.more
async def test_a_primary_that_hangs_is_left_when_the_sentinels_say_so(
    watched: Watched, backend: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.append(batch())
    monkeypatch.setattr(connection, "REPLY_TIMEOUT", 50.0)  # nothing else ends a connection that hangs
    old = watched.primary()
    # The one that was asked is cut off, as it may be together with the primary, and announces nothing.
    watched.sentinels[0].command("SENTINEL", "REMOVE", MASTER)
    os.kill(old.pid, signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailable, match=r"was closed$"):
            await backend.append(batch(2))
        await wait_until(lambda: appended(backend, batch(2)))
    finally:
        os.kill(old.pid, signal.SIGCONT)


async def test_sentinels_that_are_away_or_behind_or_do_not_know_are_dealt_with(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, since they take long to start."""
    monkeypatch.setattr(first_answer, "PATIENCE", 20.0)  # none hangs: one that was killed refuses at once
    await check_that_an_unknown_name_is_refused(watched)
    await check_that_a_sentinel_that_is_behind_is_not_believed(watched)
    await check_that_whichever_is_there_is_asked(watched)


async def check_that_an_unknown_name_is_refused(watched: Watched) -> None:
    backend = open_store(watched.url.replace(f"/{MASTER}", "/other"))
    with pytest.raises(ConfigurationError, match="knows no 'other'"):
        await backend.open()
    await backend.close()


async def check_that_a_sentinel_that_is_behind_is_not_believed(watched: Watched) -> None:
    behind = watched.sentinels[0]
    replica = next(server for server in watched.data if server is not watched.primary())
    point(behind, replica)
    backend = open_store(watched.url)
    assert isinstance(backend, RedisStore)
    with pytest.raises(BackendUnavailable, match="a slave answers there") as caught:
        await backend.open()
    assert caught.value.transient
    await backend.open()  # asks another one
    await backend.append(batch())  # the primary alone takes it
    await backend.close()


async def check_that_whichever_is_there_is_asked(watched: Watched) -> None:
    for sentinel in watched.sentinels[:2]:
        sentinel.kill()
    backend = open_store(watched.url)
    await backend.open()
    await backend.append(batch())
    await backend.close()


async def test_sentinels_that_are_away_are_told_of_each_by_name() -> None:
    backend = open_store(f"redis+sentinel://{HOST}:1,{HOST}:2/{MASTER}")
    with pytest.raises(BackendUnavailable, match=f"{HOST}:1 cannot.*{HOST}:2 cannot"):
        await backend.open()
    await backend.close()


def move_by_hand(watched: Watched) -> Server:
    """Swap primary and replica as a person may: no connection is cut, unlike in a failover by sentinels."""
    old = watched.primary()
    new = next(server for server in watched.data if server is not old)
    for sentinel in watched.sentinels:
        sentinel.command("SENTINEL", "REMOVE", MASTER)
    new.command("REPLICAOF", "NO", "ONE")
    old.command("REPLICAOF", HOST, new.port)
    for sentinel in watched.sentinels:
        sentinel.command("SENTINEL", "MONITOR", MASTER, HOST, new.port, 2)
    return new


def point(sentinel: Server, primary: Server) -> None:
    sentinel.command("SENTINEL", "REMOVE", MASTER)
    # With a quorum that is never reached it stays as it is.
    sentinel.command("SENTINEL", "MONITOR", MASTER, HOST, primary.port, 9)


async def appended(backend: RedisStore, batch: Batch) -> bool:
    try:
        await backend.append(batch)
    except BackendUnavailable:
        return False
    return True


async def renewed(leases: LeaseKeeper, claim: Claim) -> bool:
    try:
        return await leases.renew([claim]) == [Renewal.KEPT]
    except BackendUnavailable:
        return False
