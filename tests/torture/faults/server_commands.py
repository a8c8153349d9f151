"""What an operator, or another program, may do to a server: flush, destroy, disconnect, and fill it up."""

from __future__ import annotations

import asyncio
import contextlib

from tests.torture.arena import REDIS, Arena, Fault
from tests.torture.fleet import Server, ServerError
from tests.torture.residue import all_keys

#: An answer is refused with BUSY while this runs; it changes nothing, so it may be killed.
ENDLESS = "while true do end"


async def _flush_all(arena: Arena) -> None:
    async with arena.store_fault("flushall", loses=True):
        arena.store.server.command("FLUSHALL")
        await arena.pause(leases=1)  # outcomes that were under way are written to the empty store


async def _flush_scripts(arena: Arena) -> None:
    """Nothing may be noticed, so it hits no process."""
    async with arena.fault("scripts-flushed"):
        arena.store.server.command("SCRIPT", "FLUSH")


async def _kill_clients(arena: Arena) -> None:
    async with arena.store_fault("clients-killed", gentle=True):
        for kind in ("normal", "pubsub"):
            arena.store.server.command("CLIENT", "KILL", "TYPE", kind)
        await arena.pause(seconds=0.2)


async def _destroy_groups(arena: Arena) -> None:
    server = arena.store.server
    async with arena.store_fault("groups-destroyed"):
        for key in list(all_keys(server, "TYPE", "stream")):
            for group in _groups(server, key):
                server.command("XGROUP", "DESTROY", key, group)
        await arena.pause(leases=1)


async def _fill_memory(arena: Arena) -> None:
    async with arena.store_fault("memory-full"):
        arena.store.server.command("CONFIG", "SET", "maxmemory", 1)
        await arena.pause(leases=2)
        arena.store.server.command("CONFIG", "SET", "maxmemory", 0)


async def _refuse_writes(arena: Arena) -> None:
    """As a primary does that has lost its replicas."""
    async with arena.store_fault("writes-refused"):
        arena.store.server.command("CONFIG", "SET", "min-replicas-to-write", 1)
        await arena.pause(leases=2)
        arena.store.server.command("CONFIG", "SET", "min-replicas-to-write", 0)


async def _be_busy(arena: Arena) -> None:
    """Another program's script holds the server. After a tenth of a second it answers BUSY to all others."""
    server = arena.store.server
    async with arena.store_fault("server-busy"):
        server.command("CONFIG", "SET", "lua-time-limit", 100)
        script = asyncio.create_task(asyncio.to_thread(_run_endless, server))
        await arena.pause(leases=1.5)
        server.command("SCRIPT", "KILL")
        await script


def _run_endless(server: Server) -> None:
    with contextlib.suppress(ServerError, OSError):  # it is killed, and this call gives up sooner
        server.command("EVAL", ENDLESS, 0)


def _groups(server: Server, key: bytes) -> list[bytes]:
    found = server.command("XINFO", "GROUPS", key)
    assert isinstance(found, list)
    return [group[1] for group in found if isinstance(group, list) and isinstance(group[1], bytes)]


FAULTS = [
    Fault("flushall", _flush_all, REDIS, persistent=False),
    Fault("scripts-flushed", _flush_scripts, REDIS),
    Fault("clients-killed", _kill_clients, REDIS),
    Fault("groups-destroyed", _destroy_groups, REDIS),
    Fault("memory-full", _fill_memory, REDIS),
    Fault("writes-refused", _refuse_writes, REDIS),
    Fault("server-busy", _be_busy, REDIS),
]
