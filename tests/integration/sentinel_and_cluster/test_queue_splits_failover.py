"""A queue that is split while a server dies: what was reported safe is run, and the split ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from itertools import cycle
from pathlib import Path

import pytest

from headrace import App, BackendUnavailable
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Generation, parts_of
from headrace.store import Layout
from tests.integration.processes.test_queue_splits import is_empty, split_and_die
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import Workshop
from tests.support.routers import opened_router
from tests.support.server_groups import Cluster, Watched
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.more

QUEUE = Stream("queue", "default")

#: Seconds between two changes, so that something lies in each generation.
PACE = 0.1

#: Seconds within which all that was accepted has run after the harm.
PATIENCE = 40.0


class Splitting:
    """Splits the queue again and again, while the store changes its primary."""

    def __init__(self, operator: App) -> None:
        self._operator = operator
        self.carried_out = 0
        self.refused = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Splitting:
        self._task = asyncio.create_task(self._split_on())
        await self.until_carried_out(2)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until_carried_out(self, more: int) -> None:
        goal = self.carried_out + more
        await wait_until(lambda: self.carried_out >= goal, timeout=PATIENCE)

    async def _split_on(self) -> None:
        for parts in cycle((4, 2, 5, 1, 3)):
            try:
                await self._operator.admin.split("default", parts)
                self.carried_out += 1
            except BackendUnavailable:
                self.refused += 1
            await asyncio.sleep(PACE)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    with Watched("valkey-9.1", tmp_path / "servers") as watched:
        yield watched


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    with Cluster("valkey-9.1", tmp_path / "servers") as cluster:
        yield cluster


async def test_a_split_goes_on_when_the_primary_is_lost(watched: Watched, tmp_path: Path) -> None:
    def lose_the_primary() -> None:
        old = watched.primary()
        old.kill()
        watched.until_promoted(old, replicas=1)

    await nothing_is_lost(watched.url, tmp_path, lose_the_primary)


async def test_a_split_goes_on_when_the_node_with_the_layout_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    await nothing_is_lost(
        cluster.url, tmp_path, lambda: lose(cluster, cluster.owner(slot_of(cluster, QUEUE)))
    )


async def test_a_split_goes_on_when_a_node_with_parts_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    """The node of the layout stays: what it says is known to be sealed may not be sealed any more."""
    layout_at = cluster.owner(slot_of(cluster, QUEUE))
    parts = parts_of(QUEUE, Generation(1, 4))
    [other, *_] = [at for part in parts if (at := cluster.owner(slot_of(cluster, part))) is not layout_at]
    await nothing_is_lost(cluster.url, tmp_path, lambda: lose(cluster, other))


@pytest.mark.parametrize("steps", [1, 3])
async def test_a_split_that_was_left_half_done_ends_although_the_primary_is_lost(
    watched: Watched, tmp_path: Path, steps: int
) -> None:
    """None or two of three parts are sealed. The next producer finishes the split, on the new primary."""
    async with opened(watched.url, tmp_path) as workshop, App(watched.url) as operator:
        await operator.admin.split("default", 3)
        await workshop.start_ready()
        async with Load(workshop) as load:
            split_and_die(watched.url, parts=5, steps=steps)
            old = watched.primary()
            old.kill()
            await asyncio.to_thread(watched.until_promoted, old, replicas=1)
            await load.until_accepted(50)
            await operator.admin.split("default", 5)
        await workshop.until(lambda: load.runs().keys() >= load.accepted.keys(), timeout=PATIENCE)
        assert await parts_by_generation(operator) == [1, 3, 5]


async def test_a_change_that_a_failover_takes_back_is_made_again_by_who_knows_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The replica of the node with the layout stands still, so the failover loses the layout. Jobs that were
    reported safe are in parts on other nodes, which no layout names. And the earlier workers are gone."""
    home = cluster.owner(slot_of(cluster, QUEUE))
    replica = cluster.servers[cluster.servers.index(home) + cluster.primaries]
    async with opened(cluster.url, tmp_path) as workshop, App(cluster.url) as operator:
        await operator.admin.split("default", 3)
        before = await workshop.start_ready()
        async with Load(workshop) as load:
            os.kill(replica.pid, signal.SIGSTOP)
            home.command("CLIENT", "KILL", "TYPE", "replica")  # or what is sent lies in its buffers
            await operator.admin.split("default", 6)
            await load.until_accepted(5)
            before.kill()
            home.kill()
            os.kill(replica.pid, signal.SIGCONT)
            await asyncio.to_thread(cluster.until_promoted, home, cluster.slots_of(home)[0])
            home.start()
            await workshop.start_ready()
            await load.until_accepted(50)
        await workshop.until(lambda: load.runs().keys() >= load.accepted.keys(), timeout=PATIENCE)
        assert await parts_by_generation(operator) == [1, 3, 6]


async def layout_of(operator: App) -> Layout:
    assert operator.url is not None
    async with opened_router(operator.url) as store:
        return await store.layout(QUEUE)


async def parts_by_generation(operator: App) -> list[int]:
    layout = await layout_of(operator)
    assert not layout.proposed
    return [each.parts for each in layout.generations]


def slot_of(cluster: Cluster, part: Stream) -> int:
    return cluster.slot_of(f"headrace:q:{part.name}")


def lose(cluster: Cluster, node: Server) -> None:
    slot = cluster.slots_of(node)[0]
    node.kill()
    cluster.until_promoted(node, slot)
    node.start()  # it comes back as a replica, without which nothing could be reported as safe


async def nothing_is_lost(url: str, folder: Path, harm: Callable[[], None]) -> None:
    """Under load from two processes, of which each write is confirmed by a replica."""
    async with opened(url, folder) as workshop, App(url) as operator:
        for _ in range(2):
            await workshop.start_ready()
        feeder = workshop.start_feeder(1_000_000)
        async with Load(workshop) as load:
            async with Splitting(operator) as splitting:
                await asyncio.to_thread(harm)
                await splitting.until_carried_out(3)
            await load.until_accepted(50)
            await operator.admin.split("default", 6)
            await load.until_accepted(50)
        feeder.send(signal.SIGTERM)
        feeder.exit_code()
        fed = {number for line in workshop.log.lines("accepted") for number in line["numbers"]}
        await workshop.until(lambda: load.runs().keys() >= load.accepted.keys() | fed, timeout=PATIENCE)
        layout = await layout_of(operator)
        assert (layout.current.parts, layout.proposed) == (6, 0)
        assert not any(worker.ended for worker in workshop.workers if worker is not feeder)
        await workshop.until(lambda: is_empty(operator))


@contextlib.asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(url, folder, durability="replicated")
    try:
        yield workshop
    finally:
        await workshop.close()
