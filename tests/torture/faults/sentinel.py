"""A primary that sentinels watch: it is killed, or another takes its place on request."""

from __future__ import annotations

import asyncio

from tests.torture.arena import SENTINEL, Arena, Fault
from tests.torture.fleet import MASTER, Server, follows


async def _kill_primary(arena: Arena) -> None:
    """The old primary comes back as a replica."""
    watched = arena.store.watched
    old = watched.primary()
    async with arena.store_fault("primary-killed"):
        old.kill()
        await asyncio.to_thread(watched.until_promoted, old)
        old.start()
        await _until_it_follows(arena, old)


async def _ask_for_failover(arena: Arena) -> None:
    watched = arena.store.watched
    old = watched.primary()
    async with arena.store_fault("sentinel-failover"):
        watched.sentinels[0].command("SENTINEL", "FAILOVER", MASTER)
        await asyncio.to_thread(watched.until_promoted, old)
        await _until_it_follows(arena, old)


async def _kill_sentinel(arena: Arena) -> None:
    """Nothing may be noticed, so it hits no process."""
    sentinel = arena.random.choice(arena.store.watched.sentinels)
    async with arena.fault("sentinel-killed"):
        sentinel.kill()
        await arena.pause(leases=1)
        sentinel.start()


async def _until_it_follows(arena: Arena, old: Server) -> None:
    """Nothing new is confirmed without a replica."""
    await arena.fleet.until(lambda: follows(old), 60)


FAULTS = [
    Fault("primary-killed", _kill_primary, SENTINEL),
    Fault("sentinel-failover", _ask_for_failover, SENTINEL),
    Fault("sentinel-killed", _kill_sentinel, SENTINEL),
]
