"""A cluster: a node is killed, a replica takes over on request, and slots move while they are in use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.torture.arena import CLUSTER, Arena, Fault
from tests.torture.fleet import Cluster, Server, follows
from tests.torture.residue import all_keys

#: Slots that move at once.
MOST = 8


async def _kill_node(arena: Arena) -> None:
    """The old primary comes back as a replica."""
    cluster = arena.store.cluster
    slot = arena.random.choice(_slots_in_use(cluster))
    old = cluster.owner(slot)
    async with arena.store_fault("node-killed"):
        old.kill()
        await asyncio.to_thread(cluster.until_promoted, old, slot)
    old.start()
    await arena.fleet.until(lambda: follows(old) and cluster.is_whole(), 60)


async def _ask_for_failover(arena: Arena) -> None:
    """The replica takes over when it has all that the primary has: nothing is lost."""
    cluster = arena.store.cluster
    slot = arena.random.choice(_slots_in_use(cluster))
    old = cluster.owner(slot)
    replica = next(each for each in cluster.servers if each is not old and _follows(cluster, each, old))
    async with arena.store_fault("cluster-failover"):
        replica.command("CLUSTER", "FAILOVER")
        await asyncio.to_thread(cluster.until_promoted, old, slot)
    await arena.fleet.until(lambda: follows(old) and cluster.is_whole(), 60)


async def _move_slots(arena: Arena) -> None:
    """Slots in use move to another node, some keys at a time. A step whose keys are on both nodes is refused
    until all have moved."""
    cluster = arena.store.cluster
    slots = _slots_in_use(cluster)
    async with arena.store_fault("slots-moved"):
        for slot in arena.random.sample(slots, min(MOST, len(slots))):
            owner = cluster.owner(slot)
            to = arena.random.choice([each for each in cluster.owners() if each is not owner])
            cluster.begin_to_move(slot, to)
            while await asyncio.to_thread(cluster.move_keys, slot, owner, to, 5):
                await arena.pause(seconds=0.01)
            cluster.end_move(slot, to)


def _follows(cluster: Cluster, replica: Server, primary: Server) -> bool:
    nodes = replica.command("CLUSTER", "NODES")
    assert isinstance(nodes, bytes)
    own = next(line for line in nodes.splitlines() if b"myself" in line)
    return own.split()[3] == cluster.id_of(primary).encode()


def _slots_in_use(cluster: Cluster) -> list[int]:
    """The slots that have keys."""
    return sorted({cluster.slot_of(key.decode()) for key in _tagged_keys(cluster)})


def _tagged_keys(cluster: Cluster) -> Iterator[bytes]:
    for server in cluster.owners():
        tags = {key.partition(b"}")[0] + b"}" for key in all_keys(server) if key.startswith(b"{")}
        yield from tags


FAULTS = [
    Fault("node-killed", _kill_node, CLUSTER),
    Fault("cluster-failover", _ask_for_failover, CLUSTER),
    Fault("slots-moved", _move_slots, CLUSTER),
]
