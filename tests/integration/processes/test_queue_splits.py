"""A queue is split while processes feed it and work on it, and the process that splits it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import App
from headrace.core.messages.message import Stream
from headrace.core.rules.layout import Generation, parts_of
from tests.integration.support.steady_load import Load
from tests.integration.support.worker_processes import ROOT, Workshop
from tests.support.routers import opened_router
from tests.support.server_groups import Cluster

pytestmark = pytest.mark.more

QUEUE = Stream("queue", "default")

#: More parts, fewer, one.
CHANGES = (8, 3, 1)


ON_SERVER = pytest.mark.parametrize("workshop", ["valkey-9.1"], indirect=True)


@pytest.fixture
async def operator(workshop: Workshop) -> AsyncIterator[App]:
    """The app that splits the queue. To the workers it is another process."""
    async with App(workshop.url) as app:
        yield app


@pytest.mark.parametrize("workshop", ["valkey-9.1", "sqlite"], indirect=True)
async def test_a_queue_is_split_under_load_and_back(workshop: Workshop, operator: App) -> None:
    """The producers and workers know the layout from before: all of it is run, and once."""
    for _ in range(2):
        await workshop.start_ready(lease=10.0)
    feeder = workshop.start_feeder(1_000_000)
    async with Load(workshop) as load:
        for parts in CHANGES:
            await operator.admin.split("default", parts)
            await load.until_accepted(50)
    feeder.send(signal.SIGTERM)
    feeder.exit_code()
    fed = {number for line in workshop.log.lines("accepted") for number in line["numbers"]}
    await workshop.until(lambda: load.runs().keys() >= load.accepted.keys() | fed, timeout=40)
    assert set(load.runs().values()) == {1}
    await workshop.until(lambda: is_empty(operator))
    assert await partitions(operator) == 1


async def is_empty(operator: App) -> bool:
    """What has run is settled a moment later."""
    [queue] = [each for each in await operator.admin.queues() if each.name == "default"]
    return (queue.queued, queue.running, queue.dead) == (0, 0, 0)


async def partitions(operator: App) -> int:
    [queue] = [each for each in await operator.admin.queues() if each.name == "default"]
    return queue.partitions


@ON_SERVER
@pytest.mark.parametrize("steps", [1, 2, 4, 5])
async def test_whoever_splits_may_be_killed_between_any_two_steps(
    workshop: Workshop, operator: App, steps: int
) -> None:
    """None, one or all of three parts were sealed, or the next generation was just adopted."""
    await operator.admin.split("default", 3)
    await workshop.start_ready(lease=10.0)
    async with Load(workshop) as load:
        split_and_die(workshop.url, parts=5, steps=steps)
        await load.until_accepted(50)
        await operator.admin.split("default", 2)  # who comes after finds it finished, or finishes it
        await load.until_accepted(50)
    await load.until_all_ran()
    assert set(load.runs().values()) == {1}
    async with opened_router(workshop.url) as store:
        layout = await store.layout(QUEUE)
    assert [each.parts for each in layout.generations] == [1, 3, 5, 2]
    assert not layout.proposed


def split_and_die(url: str, *, parts: int, steps: int) -> None:
    module = [sys.executable, "-m", "tests.integration.programs.queue_splitter"]
    process = subprocess.run(
        [*module, url, "default", str(parts), str(steps)], cwd=ROOT, timeout=30, check=False
    )
    assert process.returncode == -signal.SIGKILL


@pytest.mark.more
async def test_parts_are_on_all_nodes_of_a_cluster(tmp_path: Path) -> None:
    with Cluster("valkey-9.1", tmp_path / "servers") as cluster:
        workshop = Workshop(cluster.url, tmp_path)
        try:
            await workshop.start_ready(lease=10.0)
            async with App(cluster.url) as operator, Load(workshop) as load:
                await operator.admin.split("default", 6)
                await load.until_accepted(100)
            await load.until_all_ran()
            assert set(load.runs().values()) == {1}
            parts = parts_of(QUEUE, Generation(1, 6))
            owners = {cluster.owner(cluster.slot_of(f"headrace:q:{part.name}")).port for part in parts}
            assert len(owners) == 3
        finally:
            await workshop.close()
