"""A primary that is cut off from the other servers while clients still reach it: what it accepts in this time
is lost, unless it was reported safe. Work goes on at its successor. After the network is healed, no client
stays with the old primary."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from headrace.core.messages.outcome import DONE, Verdict
from headrace.core.records.record import JobStatus
from headrace.stores.redis.client.cluster_slots import ClusterSlots
from headrace.stores.redis.verbs import announcements
from tests.integration.support.redis_bench import STREAM, opened
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import LEASE, Workshop
from tests.support.partitionable_network import Network
from tests.support.server_groups import MASTER, SILENCE, Cluster, Watched, follows, text_of
from tests.support.servers import HOST, Server
from tests.support.waiting import wait_until, wait_until_sync

pytestmark = [pytest.mark.more, pytest.mark.timeout(180)]

T = TypeVar("T")

#: Seconds after the promotion within which work goes on.
SOON = 10.0

#: Seconds that what was accepted takes at most to reach a replica, on a busy machine.
UNDER_WAY = 1.5

#: Seconds that jobs lie in the store: else workers, who reach a server that was cut off as well, would have
#: run them all by the time it has a successor.
DELAY = 2.0

#: Seconds that may pass until something is seen on a busy machine.
LATE = 5.0

#: With the default namespace on three different nodes; `default` is on the one that is cut off.
QUEUES = ("default", "a", "b", "c")

KINDS = ("redis-7.0", "valkey-9.1")


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path, network: Network) -> Iterator[Cluster]:
    kind = getattr(request, "param", "valkey-9.1")
    with Cluster(kind, tmp_path / "servers", network) as cluster:
        yield cluster


@pytest.fixture
def watched(request: pytest.FixtureRequest, tmp_path: Path, network: Network) -> Iterator[Watched]:
    kind = getattr(request, "param", "valkey-9.1")
    with Watched(kind, tmp_path / "servers", network) as watched:
        yield watched


@pytest.fixture
async def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workshop]:
    """Its store is whichever of the two the test asks for."""
    name = "cluster" if "cluster" in request.fixturenames else "watched"
    url = request.getfixturevalue(name).url
    workshop = Workshop(url, tmp_path, durability=getattr(request, "param", "default"))
    yield workshop
    await workshop.close()


# --- a cluster -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", KINDS, indirect=True)
async def test_a_node_that_is_cut_off_takes_nothing_with_it_but_what_it_accepted_before_it_noticed(
    cluster: Cluster, workshop: Workshop
) -> None:
    await start_two(workshop, *QUEUES)
    old = cluster.owner_of(tag("default"))
    there = {number for number, name in enumerate(QUEUES) if cluster.owner_of(tag(name)) is old}
    async with Load(workshop, QUEUES, delay=DELAY, may_be_refused=True) as load:
        cut_at = time.time()
        cluster.isolate(old)
        stopped_at = await seen(lambda: b"cluster_state:fail" in text_of(old, "CLUSTER", "INFO"))
        promoted_at = await promoted(cluster, old)
        # Also of the queue that was there, and before the network is mended.
        await workshop.until(lambda: queues_run_since(workshop, load, promoted_at) == set(range(len(QUEUES))))
        assert time.time() - promoted_at <= SOON
        cluster.heal()
        await seen(lambda: follows(old))
        await load.until_accepted(100)
    # As docs/guides/fleet.md has it: one and a half times `cluster-node-timeout`.
    assert stopped_at - cut_at <= 1.5 * SILENCE / 1000 + LATE
    await lost_of(workshop, load, cut_at, stopped_at, there)
    # Only queues that were there have lost any.
    await workshop.until(lambda: {number % len(QUEUES) for number in not_run(load)} <= there)
    # A read that still waited there would wait for ever.
    await seen(lambda: b"blocked_clients:0" in text_of(old, "INFO", "clients"))
    assert not any(worker.ended for worker in workshop.workers)


@pytest.mark.parametrize("workshop", ["replicated"], indirect=True)
async def test_nothing_reported_safe_is_lost_with_a_node_that_is_cut_off(
    cluster: Cluster, workshop: Workshop
) -> None:
    await start_two(workshop, *QUEUES)
    old = cluster.owner_of(tag("default"))
    async with Load(workshop, QUEUES, delay=DELAY, may_be_refused=True) as load:
        cluster.isolate(old)
        await promoted(cluster, old)
        cluster.heal()
        followed_at = await seen(lambda: follows(old))  # no other replica could confirm anything
        await workshop.until(lambda: queues_run_since(workshop, load, followed_at) == set(range(len(QUEUES))))
        assert time.time() - followed_at <= SOON
    await load.until_all_ran()


async def test_an_end_is_heard_of_also_by_who_listens_at_a_node_that_is_cut_off(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = next(server for server in cluster.servers[:3] if server is not cluster.owner_of(tag(STREAM.name)))
    monkeypatch.setattr(ClusterSlots, "any_node", lambda slots, but: just((HOST, cluster.port_of(old))))
    async with opened(cluster.url, "headrace") as bench:
        monkeypatch.undo()
        listening = bench.backend._announcements
        assert listening._link.wire.address.port == cluster.port_of(old)
        [id] = await bench.add()
        [claim] = await bench.claim()
        waiting = asyncio.create_task(bench.backend.wait_for_end(STREAM, id, 2 * SOON))
        await wait_until(lambda: listening._waiting)
        await bench.backend.get(STREAM, id)  # by its answer the store knows who waits
        cluster.isolate(old)
        promoted_at = await promoted(cluster, old)
        assert await bench.again(lambda: bench.settle(DONE, claim)) == [Verdict.KEPT]
        assert (await waiting).status is JobStatus.UNKNOWN
        assert time.time() - promoted_at <= SOON


async def test_who_listens_at_a_node_that_is_well_soon_no_longer_asks_one_that_is_cut_off(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that one announces is not heard anywhere else, which is no reason to leave all others in turn."""
    monkeypatch.setattr(announcements, "PULSE", 0.2)
    old = next(server for server in cluster.servers[:3] if server is not cluster.owner_of(tag(STREAM.name)))
    async with opened(cluster.url, "headrace") as bench:
        slots = bench.backend._store._slots
        assert (HOST, cluster.port_of(old)) in slots.primaries
        cluster.isolate(old)
        await promoted(cluster, old)
        await wait_until(lambda: (HOST, cluster.port_of(old)) not in slots.primaries, timeout=40)


# --- sentinels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", KINDS, indirect=True)
async def test_a_primary_that_is_cut_off_from_the_sentinels_is_left_when_another_is_promoted(
    watched: Watched, workshop: Workshop, network: Network
) -> None:
    await start_two(workshop)
    old = watched.primary()
    await until_rested(workshop)  # leases are renewed on a connection of their own, which then stands
    async with Load(workshop, delay=DELAY, may_be_refused=True) as load:
        cut_at = time.time()
        watched.isolate(old)
        promoted_at = await promoted(watched, old)
        # The old primary does not notice and would take jobs for ever: no producer may send it any.
        left_at = await seen(lambda: network.clients_of(watched.address_of(old)) == 0)
        assert await load.until_work_goes_on(promoted_at) <= SOON
        await until_rested(workshop)
        watched.heal()
        await load.until_accepted(100)
    await lost_of(workshop, load, cut_at, left_at)
    # The sentinels make it a replica some ten seconds after they see it again.
    await seen(lambda: follows(old))
    assert network.clients_of(watched.address_of(old)) == 0
    assert not any(worker.ended for worker in workshop.workers)


async def test_a_primary_that_must_have_replicas_stops_accepting_when_it_is_cut_off(
    watched: Watched, workshop: Workshop
) -> None:
    """`min-replicas-to-write`, the remedy that docs/guides/fleet.md names."""
    lag = 2  # replicas report once a second: with less a busy machine is refused now and then
    for server in watched.data:
        server.command("CONFIG", "SET", "min-replicas-to-write", 1)
        server.command("CONFIG", "SET", "min-replicas-max-lag", lag)
    for sentinel in watched.sentinels:
        sentinel.command("SENTINEL", "SET", MASTER, "down-after-milliseconds", 6000)
    await start_two(workshop)
    old = watched.primary()
    async with Load(workshop, delay=DELAY) as load:
        cut_at, refused_before = time.time(), refusals_of(old)
        watched.isolate(old)
        stopped_at = await seen(lambda: refusals_of(old) > refused_before)
        promoted_at = await promoted(watched, old)
        # A producer whose request was refused waits for the successor. Its caller gets no error.
        assert await load.until_work_goes_on(promoted_at) <= SOON
        await load.until_accepted(100)
    # The server counts in whole seconds, and looks once a second.
    assert stopped_at - cut_at <= lag + 2 + LATE
    await lost_of(workshop, load, cut_at, stopped_at)


@pytest.mark.parametrize("workshop", ["replicated"], indirect=True)
async def test_nothing_reported_safe_is_lost_with_a_primary_that_is_cut_off(
    watched: Watched, workshop: Workshop
) -> None:
    await start_two(workshop)
    old = watched.primary()
    async with Load(workshop, delay=DELAY, may_be_refused=True) as load:
        watched.isolate(old)
        promoted_at = await promoted(watched, old, replicas=1)
        assert await load.until_work_goes_on(promoted_at) <= SOON
        await load.until_accepted(50)
        watched.heal()
        await load.until_accepted(50)
    await load.until_all_ran()


# --- short ways to say things ----------------------------------------------------------------------------


async def just(value: T) -> T:
    return value


def tag(queue: str) -> str:
    return f"{{headrace:q:{queue}}}"


async def start_two(workshop: Workshop, *queues: str) -> None:
    flags = ("--queues", ",".join(queues)) if queues else ()
    for _ in range(2):
        await workshop.start_ready(*flags)


async def until_rested(workshop: Workshop) -> None:
    """Run some jobs that take several leases, once each."""
    naps = [await workshop.task("nap").enqueue(3 * LEASE) for _ in range(10)]
    for nap in naps:
        assert await nap.result(timeout=20) == "rested"
        assert len(workshop.log.lines("started", id=nap.id)) == 1


async def seen(condition: Callable[[], object]) -> float:
    """Wait, with the event loop free; answers when it was so, on the clock of the log."""
    await asyncio.to_thread(wait_until_sync, condition, 40)
    return time.time()


async def promoted(servers: Cluster | Watched, old: Server, *, replicas: int = 0) -> float:
    if isinstance(servers, Watched):
        await asyncio.to_thread(servers.until_promoted, old, replicas=replicas)
    else:
        slot = servers.slots_of(old)[0]
        await asyncio.to_thread(servers.until_promoted, old, slot)
    return time.time()


async def lost_of(
    workshop: Workshop, load: Load, cut_at: float, stopped_at: float, there: set[int] | None = None
) -> None:
    """Some jobs are gone. All others run: those that were accepted before and after. On a busy machine it
    may be that none was accepted in between, of the queues that were there."""
    safe = {
        number
        for number, at in load.accepted.items()
        if not cut_at - UNDER_WAY < at <= stopped_at + UNDER_WAY
    }
    await workshop.until(lambda: load.runs().keys() >= safe)
    lost = not_run(load)
    between = {number for number, at in load.accepted.items() if cut_at + UNDER_WAY / 3 < at <= stopped_at}
    if there is not None:
        between = {number for number in between if number % len(QUEUES) in there}
    assert lost or not between
    print(f"lost {len(lost)} of {len(load.accepted)} in {stopped_at - cut_at:.1f} s")


def not_run(load: Load) -> set[int]:
    return load.accepted.keys() - load.runs().keys()


def queues_run_since(workshop: Workshop, load: Load, moment: float) -> set[int]:
    """The queues, by number, of which jobs ran that were accepted after this moment."""
    lines = workshop.log.lines("quick")
    return {line["number"] % len(QUEUES) for line in lines if load.accepted.get(line["number"], 0) > moment}


def refusals_of(server: Server) -> int:
    found = re.search(rb"errorstat_NOREPLICAS:count=(\d+)", text_of(server, "INFO", "errorstats"))
    return int(found[1]) if found else 0
