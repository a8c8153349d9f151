"""On a cluster: queues on several nodes, one of which dies, and a queue that moves while it is used."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from headrace import App, Limit
from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.core.messages.claim import Claim
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.core.messages.outcome import DONE, Settlement, Verdict
from headrace.core.records.answers import Renewal
from headrace.core.runtime.clock import SECOND
from headrace.stores.redis.client import cluster_nodes, connection
from headrace.stores.redis.client.cluster_slots import slot_of
from headrace.stores.redis.entries import EntryToken
from headrace.stores.redis.health.permissions import rules_for
from headrace.stores.redis.intake import cluster_readers, poll
from headrace.stores.redis.keys import GROUP
from tests.integration.support.redis_bench import STREAM, Bench, opened
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import LEASE, Workshop
from tests.support.routers import open_router
from tests.support.server_groups import CALM, Cluster, follows, text_of
from tests.support.servers import Fleet, Server, ServerError
from tests.support.waiting import wait_until, wait_until_sync

#: How soon nodes agree depends on the machine.
pytestmark = pytest.mark.timeout(180)

#: Seconds after the promotion within which work goes on.
SOON = 10.0

#: Seconds before the loss of a node of which the default durability may lose jobs.
WINDOW = 2.0

#: With the default namespace on three different nodes; `default` is the one that tests harm.
QUEUES = ("default", "a", "b", "c")

KINDS = ("redis-7.0", "valkey-9.1")


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests that leave it whole."""
    with Cluster(request.param, tmp_path_factory.mktemp("cluster"), silence=CALM) as cluster:
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """One that may be harmed."""
    with Cluster(getattr(request, "param", "valkey-9.1"), tmp_path / "servers") as cluster:
        yield cluster


@pytest.fixture
async def bench(shared: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """No node is away. A busy machine may stop this process for longer than a node has time to answer."""
    monkeypatch.setattr(cluster_readers, "GRACE", 30.0)
    async with opened(shared.url) as bench:
        yield bench


@pytest.fixture
async def workshop(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[Workshop]:
    workshop = Workshop(cluster.url, tmp_path, durability=getattr(request, "param", "default"))
    yield workshop
    await workshop.close()


class Answers:
    """The errors with which nodes sent requests away or back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        original = cluster_nodes.ClusterNodes._is_to_be_sent_again

        def look(these: cluster_nodes.ClusterNodes, errand: cluster_nodes.NodeRequest) -> bool:
            self.seen.append(str(errand.reply).partition(" ")[0])
            return original(these, errand)

        monkeypatch.setattr(cluster_nodes.ClusterNodes, "_is_to_be_sent_again", look)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


def tag(namespace: str = "headrace", queue: str = "default") -> str:
    return f"{{{namespace}:q:{queue}}}"


def another(cluster: Cluster, slot: int) -> Server:
    """A primary that does not own the slot."""
    owner = cluster.owner(slot)
    owners = (cluster.owner(each) for each in (0, 8000, 16383))
    return next(server for server in owners if server is not owner)


# --- whole -----------------------------------------------------------------------------------------------


def test_slots_are_those_of_the_server(shared: Cluster) -> None:
    keys = ("123456789", "{a}b", "a{b}c{d}", "{}a", "{a", "a}{b", "{headrace:q:default}:meta", "")
    assert [slot_of(key.encode()) for key in keys] == [shared.slot_of(key) for key in keys]


async def test_jobs_of_queues_on_several_nodes_are_done(shared: Cluster) -> None:
    assert len({id(shared.owner_of(tag(queue=queue))) for queue in QUEUES}) == 3
    app = App(shared.url)

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker(queues=QUEUES, grace=0):
        jobs = [await double.with_(queue=queue).enqueue(4) for queue in 5 * QUEUES]
        jobs += await app.enqueue_many([double.with_(queue=queue).call(4) for queue in QUEUES])
        assert [await job.result(timeout=10) for job in jobs] == [8] * 6 * len(QUEUES)


async def test_a_wait_over_several_nodes_ends_with_whatever_comes_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_readers, "LOOK", 30)  # no look: only a wake-up can end the wait
    sources = [Stream("queue", name) for name in ("work", "a", "b", "c", "d")]
    for source in sources:
        await bench.backend.declare_stream(source, 15 * SECOND)
    # In the second round no node is asked before the wait.
    for number, source in enumerate(2 * sources, 1):
        waiting = asyncio.create_task(
            bench.backend.claim(sources, consumer="worker", limit=10, suspects=1, wait=50)
        )
        await wait_until(lambda: are_awaited(bench, sources))
        message = Message(new_id(), "greet", b"hello")
        await bench.backend.append(Batch(source, "p", number, [message]))
        (claim,) = await asyncio.wait_for(waiting, 10)
        assert (claim.id, claim.stream) == (message.id, source)
        assert await bench.settle(DONE, claim) == [Verdict.KEPT]


async def test_who_waits_looks_at_a_queue_with_one_command(
    shared: Cluster, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_readers, "LOOK", 0.05)
    sources = [Stream("queue", name) for name in ("work", "a", "b")]
    for source in sources:
        await bench.backend.declare_stream(source, 15 * SECOND)
    waiting = asyncio.create_task(
        bench.backend.claim(sources, consumer="worker", limit=10, suspects=1, wait=50)
    )
    await wait_until(lambda: are_awaited(bench, sources))
    before = calls_of(shared, "xreadgroup"), calls_of(shared, "get")
    await wait_until(lambda: calls_of(shared, "get") >= before[1] + 30)
    assert calls_of(shared, "xreadgroup") == before[0]
    bench.backend.wake("worker")
    assert await waiting == []


async def test_what_was_queued_unheard_is_found_by_the_next_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when another has looked meanwhile, who may not take it, and has left a name."""
    monkeypatch.setattr(cluster_readers, "LOOK", 0.2)
    monkeypatch.setattr(cluster_readers.ClusterReaders, "ready", lambda *_: None)
    source = Stream("queue", "work")
    await bench.backend.declare_stream(source, 15 * SECOND)
    waiting = asyncio.create_task(
        bench.backend.claim([source], consumer="worker", limit=1, suspects=1, children=1, wait=50)
    )
    await wait_until(lambda: are_awaited(bench, [source]))
    message = Message(new_id(), "greet", b"hello", child=True)
    await bench.backend.append(Batch(source, "p", 1, [message]))
    without_children = {"limit": 1, "suspects": 1, "children": 0, "wait": 0}
    assert await bench.backend.claim([source], consumer="other", **without_children) == []
    (claim,) = await asyncio.wait_for(waiting, 10)
    assert await bench.settle(DONE, claim) == [Verdict.KEPT]


async def test_what_several_queues_have_is_taken_in_equal_shares(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "FRESH", 30.0)  # one claim brings all, on a busy machine too
    sources = [Stream("queue", name) for name in ("work", "a", "b")]
    for source in sources:
        await bench.backend.declare_stream(source, 15 * SECOND)
        messages = [Message(new_id(), "greet", b"hello") for _ in range(50)]
        await bench.backend.append(Batch(source, "p", 1, messages))
    taken = await bench.backend.claim(sources, consumer="worker", limit=60, suspects=1, wait=0)
    assert [sum(claim.stream == source for claim in taken) for source in sources] == [20, 20, 20]
    # What one does not have the others give.
    rest = await bench.backend.claim(sources[:2], consumer="worker", limit=50, suspects=1, wait=0)
    more = await bench.backend.claim(sources, consumer="worker", limit=60, suspects=1, wait=0)
    assert (len(rest), len(more)) == (50, 40)
    assert await bench.settle(DONE, *taken, *rest, *more) == [Verdict.KEPT] * 150


async def test_a_queue_that_is_not_claimed_from_any_more_keeps_no_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it was split, and all of it has run."""
    old, new = (Stream("queue", name) for name in ("a", "b"))
    for source in (old, new):
        await bench.backend.declare_stream(source, 15 * SECOND)
    await bench.backend.claim([old], consumer="worker", limit=1, suspects=1, wait=0)
    [reader] = bench.backend._readers["worker"]._readers.values()
    wire = reader._link.wire
    for unused, closed in ((50.0, False), (-1.0, True)):
        monkeypatch.setattr(cluster_readers, "UNUSED", unused)
        await bench.backend.claim([new], consumer="worker", limit=1, suspects=1, wait=0)
        assert wire.closed is closed
    monkeypatch.undo()
    message = Message(new_id(), "greet", b"hello")
    await bench.backend.append(Batch(old, "p", 1, [message]))
    [claim] = await bench.backend.claim([old, new], consumer="worker", limit=1, suspects=1, wait=0)
    assert await bench.settle(DONE, claim) == [Verdict.KEPT]


async def test_a_node_is_refused_as_a_server_and_a_server_as_a_node(shared: Cluster, servers: Fleet) -> None:
    single = open_router(shared.servers[0].url)
    with pytest.raises(ConfigurationError, match=r"redis\+cluster://"):
        await single.open()
    many = open_router(servers.get("redis-7.0").url.replace("redis://", "redis+cluster://"))
    with pytest.raises(ConfigurationError, match="redis://"):
        await many.open()
    await single.close()
    await many.close()


async def test_a_user_needs_two_rights_more_than_on_one_server(shared: Cluster) -> None:
    rules = rules_for("headrace", "worker").split(" ")
    for server in shared.servers:
        server.command("ACL", "SETUSER", "few", "on", ">secret", *rules, "+cluster|slots", "+asking")
    app = App(shared.url.replace("://", "://few:secret@"))

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker(queues=QUEUES, grace=0):
        jobs = [await double.with_(queue=queue).enqueue(2) for queue in QUEUES]
        assert [await job.result(timeout=10) for job in jobs] == [4] * len(QUEUES)


# --- a queue that moves ----------------------------------------------------------------------------------


async def test_a_queue_that_has_moved_is_found_at_its_new_node(
    shared: Cluster, bench: Bench, answers: Answers
) -> None:
    await bench.add(3)
    (claim,) = await bench.claim(1)
    leases = bench.backend.lease_keeper()
    assert await leases.renew([claim]) == [Renewal.KEPT]
    slot = shared.slot_of(tag(bench.namespace, STREAM.name))
    move(shared, slot, another(shared, slot))
    await bench.add()
    assert answers.seen.count("MOVED") == 1
    assert await leases.renew([claim]) == [Renewal.KEPT]
    await leases.close()
    assert len(await bench.again(bench.claim)) == 3
    assert await bench.settle(DONE, claim) == [Verdict.KEPT]


async def test_a_key_that_has_gone_ahead_is_asked_for_where_it_is(
    shared: Cluster, bench: Bench, answers: Answers
) -> None:
    slot = shared.slot_of(tag(bench.namespace, STREAM.name))
    to = another(shared, slot)
    owner = shared.begin_to_move(slot, to)
    shared.move_keys(slot, owner, to)
    meta = bench.backend._store.queue(STREAM).keys.meta
    assert await bench.backend._store.command("HGET", meta, "lease") == b"15000000"
    assert "ASK" in answers.seen
    assert "MOVED" not in answers.seen
    shared.end_move(slot, to)


async def test_what_needs_keys_of_both_nodes_waits_until_all_have_arrived(
    shared: Cluster, bench: Bench, answers: Answers
) -> None:
    await bench.add(3)
    slot = shared.slot_of(tag(bench.namespace, STREAM.name))
    to = another(shared, slot)
    owner = shared.begin_to_move(slot, to)
    shared.move_keys(slot, owner, to, 2)
    adding = asyncio.create_task(bench.add())
    await wait_until(lambda: "TRYAGAIN" in answers.seen)
    shared.move_keys(slot, owner, to)
    shared.end_move(slot, to)
    await adding
    assert len(await bench.again(bench.claim)) == 4


async def test_a_slot_that_nobody_serves_is_waited_for_and_then_told(
    shared: Cluster, bench: Bench, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = shared.slot_of(tag(bench.namespace, STREAM.name))
    owner = shared.owner(slot)
    owner.command("CLUSTER", "DELSLOTS", slot)
    try:
        with monkeypatch.context() as brief:
            brief.setattr(cluster_nodes, "PATIENCE", 0.1)
            with pytest.raises(BackendUnavailable) as caught:
                await bench.add()
        assert caught.value.transient
        assert answers.seen.count("CLUSTERDOWN") > 1 or "owns the slot" in str(caught.value)
    finally:
        owner.command("CLUSTER", "ADDSLOTS", slot)
    await bench.again(bench.add)


@pytest.mark.more
@pytest.mark.parametrize("cluster", KINDS, indirect=True)
async def test_a_queue_that_moves_under_load_loses_and_doubles_nothing(
    cluster: Cluster, workshop: Workshop
) -> None:
    flags = ("--queues", ",".join(QUEUES))
    for _ in range(2):
        await workshop.start_ready(*flags, lease=10.0)
    slot = cluster.slot_of(tag())
    to = another(cluster, slot)
    async with Load(workshop, QUEUES) as load:
        await asyncio.to_thread(move, cluster, slot, to)
        at = time.time()
        assert await load.until_work_goes_on(at) <= SOON
        await load.until_accepted(100)
    await load.until_all_ran()
    assert set(load.runs().values()) == {1}
    assert cluster.owner(slot) is to


async def test_a_queue_that_is_moved_in_one_step_hardly_stands_still(
    cluster: Cluster, workshop: Workshop
) -> None:
    """As Valkey 9 and Redis 8.4 can."""
    await workshop.start_ready("--queues", ",".join(QUEUES), lease=10.0)
    slot = cluster.slot_of(tag())
    owner, to = cluster.owner(slot), another(cluster, slot)
    async with Load(workshop, QUEUES) as load:
        owner.command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.id_of(to))
        await workshop.until(lambda: cluster.owner(slot) is to)
        await load.until_accepted(100)
    await load.until_all_ran()
    assert set(load.runs().values()) == {1}


# --- a node that dies ------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("workshop", ["replicated"], indirect=True)
async def test_nothing_reported_safe_is_lost_with_a_node(cluster: Cluster, workshop: Workshop) -> None:
    load = await fed_through_a_failover(cluster, workshop, with_replica=True)
    await load.until_all_ran()


@pytest.mark.more
@pytest.mark.parametrize("cluster", ["redis-7.0"], indirect=True)
async def test_by_default_only_what_was_accepted_just_before_the_loss_may_be_lost(
    cluster: Cluster, workshop: Workshop
) -> None:
    before = time.time()
    load = await fed_through_a_failover(cluster, workshop)
    killed_at = load.harmed_at
    assert killed_at > before
    safe = {number for number, at in load.accepted.items() if not killed_at - WINDOW < at <= killed_at}
    await workshop.until(lambda: load.runs().keys() >= safe)


async def fed_through_a_failover(cluster: Cluster, workshop: Workshop, *, with_replica: bool = False) -> Load:
    """Work must go on soon after the promotion, or after the successor has a replica that confirms it."""
    for _ in range(2):
        await workshop.start_ready("--queues", ",".join(QUEUES))
    slot = cluster.slot_of(tag())
    async with Load(workshop, QUEUES, may_be_refused=True) as load:
        old, load.harmed_at = cluster.owner(slot), time.time()
        old.kill()
        await asyncio.to_thread(cluster.until_promoted, old, slot)
        at = time.time()
        old.start()  # it comes back as a replica
        if with_replica:
            await asyncio.to_thread(wait_until_sync, lambda: follows(old), 30)
            at = time.time()
        # Jobs of every queue are taken and run, also of the one that was there.
        await workshop.until(lambda: since(workshop, load, at) == set(range(len(QUEUES))))
        assert time.time() - at <= SOON
    assert not any(worker.ended for worker in workshop.workers)
    return load


@pytest.mark.more
@pytest.mark.parametrize("cluster", ["redis-7.0"], indirect=True)
async def test_a_cluster_that_is_down_for_longer_than_a_lease_costs_nobody_a_job(
    cluster: Cluster, workshop: Workshop
) -> None:
    """Two of three primaries stand still: the third says CLUSTERDOWN, and no replica can be promoted."""
    lease, flags = 4 * LEASE, ("--queues", ",".join(QUEUES))
    await workshop.start_ready(*flags, lease=lease)
    naps = [
        await workshop.task("nap").with_(queue=queue).enqueue(6 * lease) for queue in QUEUES for _ in range(5)
    ]
    await workshop.until(lambda: len(workshop.log.lines("started")) == len(naps))
    for _ in range(2):
        await workshop.start_ready(*flags, lease=lease)  # they could take them
    hung = cluster.servers[1 : cluster.primaries]
    for server in hung:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        back_at = time.monotonic() + 1.5 * lease
        await workshop.until(lambda: time.monotonic() >= back_at)
        with pytest.raises(ServerError, match="CLUSTERDOWN"):
            cluster.servers[0].command("GET", "{headrace:q:c}:meta")
    finally:
        for server in hung:
            os.kill(server.pid, signal.SIGCONT)
    for nap in naps:
        assert await nap.result(timeout=60) == "rested"
    assert len(workshop.log.lines("started")) == len(naps)
    assert workshop.log.lines("lost") == []


@pytest.mark.more
async def test_the_leases_on_other_nodes_are_renewed_while_one_hangs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(cluster.url, "headrace") as bench:
        claims = [await claimed(bench, name) for name in QUEUES]
        since = time.monotonic()
        hung = cluster.owner_of(tag())
        others = [each for each in claims if cluster.owner_of(tag(queue=each.stream.name)) is not hung]
        leases = bench.backend.lease_keeper()
        os.kill(hung.pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as brief:
                brief.setattr(connection, "REPLY_TIMEOUT", 3.0)
                told = await leases.renew(claims)
                unknown = [
                    claim for claim, renewal in zip(claims, told, strict=True) if renewal is not Renewal.KEPT
                ]
                assert set(told) == {Renewal.KEPT, Renewal.UNKNOWN}
                assert not set(unknown).intersection(others)
            for claim in others:
                assert await untouched_for(bench, claim) < time.monotonic() - since
        finally:
            os.kill(hung.pid, signal.SIGCONT)
            await leases.close()


async def test_a_node_that_hangs_keeps_nobody_from_the_jobs_of_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REPLY_TIMEOUT", 50.0)  # no request waits that long here
    async with opened(cluster.url, "headrace") as bench:
        sources = [Stream("queue", name) for name in QUEUES]
        for source in sources:
            await bench.backend.declare_stream(source, 15 * SECOND)
        hung = cluster.owner_of(tag())
        source = next(each for each in sources if cluster.owner_of(tag(queue=each.name)) is not hung)
        waiting = asyncio.create_task(
            bench.backend.claim(sources, consumer="worker", limit=10, suspects=1, wait=50)
        )
        await wait_until(lambda: are_awaited(bench, sources))
        os.kill(hung.pid, signal.SIGSTOP)
        try:
            for number in (1, 2):
                await bench.backend.append(Batch(source, "p", number, [Message(new_id(), "greet", b"")]))
                (claim,) = await asyncio.wait_for(waiting, 20)
                assert await bench.settle(DONE, claim) == [Verdict.KEPT]
                waiting = asyncio.create_task(
                    bench.backend.claim(sources, consumer="worker", limit=10, suspects=1, wait=50)
                )
        finally:
            os.kill(hung.pid, signal.SIGCONT)
        bench.backend.wake("worker")
        assert await waiting == []


@pytest.mark.more
async def test_queues_of_a_lost_node_keep_nobody_from_the_others(cluster: Cluster) -> None:
    for server in cluster.servers:
        server.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    async with opened(cluster.url, "headrace") as bench:
        sources = [Stream("queue", name) for name in QUEUES]
        for source in sources:
            await bench.backend.declare_stream(source, 15 * SECOND)
        lost = cluster.owner_of("headrace:streams")
        owners = [cluster.owner_of(tag(queue=name)) for name in QUEUES]
        gone, source = sources[owners.index(lost)], sources[(owners.index(lost) + 1) % len(QUEUES)]
        assert owners[sources.index(source)] is not lost
        replica = cluster.servers[cluster.servers.index(lost) + cluster.primaries]
        lost.kill()
        replica.kill()
        bench.backend._store.listed.clear()  # as when a connection is made anew
        waiting = asyncio.create_task(
            bench.backend.claim(sources, consumer="worker", limit=10, suspects=1, wait=50)
        )
        await bench.again(lambda: bench.backend.append(Batch(source, "p", 1, [Message("one", "greet", b"")])))
        (claim,) = await asyncio.wait_for(waiting, 20)
        assert (await bench.backend.promote(sources, limit=10)).count == 0
        assert (await bench.backend.reclaim(sources, limit=10)).recovered == ()
        assert await bench.backend.settle([Settlement(claim, DONE)]) == [Verdict.KEPT]
        for upkeep in (bench.backend.promote, bench.backend.reclaim):
            with pytest.raises(BackendUnavailable):
                await upkeep([gone], limit=10)


# --- short ways to say things ----------------------------------------------------------------------------


def move(cluster: Cluster, slot: int, to: Server) -> None:
    owner = cluster.begin_to_move(slot, to)
    while cluster.move_keys(slot, owner, to):
        pass
    cluster.end_move(slot, to)


def since(workshop: Workshop, load: Load, moment: float) -> set[int]:
    """The queues, by number, of which jobs ran that were accepted after this moment."""
    return {
        line["number"] % len(QUEUES)
        for line in workshop.log.lines("quick")
        if load.accepted.get(line["number"], 0) > moment
    }


async def claimed(bench: Bench, queue: str) -> Claim:
    """The only message of a new queue."""
    source = Stream("queue", queue)
    await bench.backend.declare_stream(source, 15 * SECOND)
    await bench.backend.append(Batch(source, "p", 1, [Message(new_id(), "greet", b"")]))
    (claim,) = await bench.backend.claim([source], consumer="worker", limit=1, suspects=1, wait=0)
    assert isinstance(claim, Claim)
    return claim


async def untouched_for(bench: Bench, claim: Claim) -> float:
    """Seconds since it was claimed or renewed."""
    store, token = bench.backend._store, cast(EntryToken, claim.token)
    lane = store.queue(claim.stream).keys.by_lane[token.lane]
    [row] = await store.command("XPENDING", lane, GROUP, token.entry, token.entry, 1)
    milliseconds: int = row[2]
    return milliseconds / 1000


def calls_of(cluster: Cluster, command: str) -> int:
    """How often the nodes have carried out a command, also within scripts."""
    told = b"".join(text_of(server, "INFO", "commandstats") for server in cluster.servers)
    return sum(map(int, re.findall(rf"cmdstat_{command}:calls=(\d+)", told.decode())))


async def are_awaited(bench: Bench, sources: list[Stream]) -> bool:
    """Whether a claim waits for each of these queues."""
    store = bench.backend._store
    return all([await store.command("GET", store.queue(source).keys.awaited) for source in sources])


STRIPE = Limit("stripe", max_running=1)


def app_with_two_queues(
    cluster: Cluster, namespace: str, *, tag: str | None
) -> tuple[App, list[str], list[int]]:
    """An app with a limit over two queues; the order of runs, and how many there were at once."""
    app, order, together = App(cluster.url, namespace=namespace), list[str](), list[int]()
    running: set[str] = set()

    async def work(name: str) -> None:
        running.add(name)
        order.append(name)
        together.append(len(running))
        await asyncio.sleep(0.001)
        running.discard(name)

    for queue in ("a", "b"):
        if tag is not None:
            app.queue(queue, hash_tag=tag)
        app.task(name=f"work.{queue}", queue=queue, limits=[STRIPE])(work)
    return app, order, together


async def test_a_limit_over_two_queues_without_a_hash_tag_is_refused(shared: Cluster) -> None:
    app, _, _ = app_with_two_queues(shared, new_id(), tag=None)
    with pytest.raises(ConfigurationError, match=r"the queues a, b.*app\.queue\('a', hash_tag='stripe'\)"):
        async with app.worker(queues=["a", "b"]):
            pass
    await app.close()


async def test_a_limit_covers_queues_of_one_hash_tag(shared: Cluster) -> None:
    namespace = new_id()
    app, order, together = app_with_two_queues(shared, namespace, tag="payments")
    for queue in ("a", "b"):
        task = app.remote(f"work.{queue}", queue=queue)
        await app.enqueue_many([task.call(f"{queue}{number}") for number in range(10)])
    other = App(shared.url, namespace=namespace)  # it knows nothing of the tag
    await other.remote("work.b", queue="b").enqueue("b-other")
    assert {info.name: info.queued for info in await other.admin.queues()} == {"a": 10, "b": 11}

    async with app.worker(queues=["a"]), app.worker(queues=["b"]):
        await wait_until(lambda: len(order) == 21, timeout=60)
        await wait_until(lambda: _nothing_runs(other), timeout=60)

    assert set(together) == {1}
    [limit] = await other.admin.limits()
    assert (limit.name, limit.running, limit.waiting) == ("stripe", 0, 0)
    await other.close()
    await app.close()


async def _nothing_runs(app: App) -> bool:
    return all([limit.running == 0 for limit in await app.admin.limits()])


async def test_a_queue_in_use_gets_no_other_hash_tag(shared: Cluster) -> None:
    namespace = new_id()
    plain = App(shared.url, namespace=namespace)
    await plain.remote("work.a", queue="a").enqueue("first")
    tagged, _, _ = app_with_two_queues(shared, namespace, tag="payments")
    with pytest.raises(ConfigurationError, match=r"'a' is in use without a hash tag"):
        await tagged.remote("work.a", queue="a").enqueue("second")
    await tagged.remote("work.b", queue="b").enqueue("first")
    other, _, _ = app_with_two_queues(shared, namespace, tag="others")
    with pytest.raises(ConfigurationError, match=r"'b' is in use with hash_tag='payments'"):
        await other.remote("work.b", queue="b").enqueue("second")
    for app in (plain, tagged, other):
        await app.close()
