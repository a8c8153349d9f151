"""The links between the fleet and its server: silent, reset, refused, slow, one byte at a time."""

from __future__ import annotations

from tests.torture.arena import POSTGRES, REDIS, Arena, Fault


async def _swallow_all(arena: Arena) -> None:
    async with arena.store_fault("link-black-hole"):
        arena.store.proxy.swallows = True
        await arena.pause(leases=2)
        arena.store.proxy.heal()
        await arena.pause(seconds=2)


async def _half_open(arena: Arena) -> None:
    """New connections work, and those that stand say nothing more: clients must notice by themselves."""
    async with arena.store_fault("link-half-open"):
        arena.store.proxy.swallow_standing()
        await arena.pause(seconds=10)


async def _reset(arena: Arena) -> None:
    async with arena.store_fault("link-reset"):
        for _ in range(3):
            arena.store.proxy.reset()
            await arena.pause(leases=0.3)


async def _refuse(arena: Arena) -> None:
    async with arena.store_fault("link-refused"):
        arena.store.proxy.refuses = True
        arena.store.proxy.reset()
        await arena.pause(leases=1.5)
        arena.store.proxy.heal()


async def _slow_down(arena: Arena) -> None:
    async with arena.store_fault("link-slow"):
        arena.store.proxy.delay = 0.05
        await arena.pause(leases=3)
        arena.store.proxy.heal()


async def _byte_by_byte(arena: Arena) -> None:
    async with arena.store_fault("link-one-byte-at-a-time"):
        arena.store.proxy.piece = 1
        await arena.pause(leases=2)
        arena.store.proxy.heal()


FAULTS = [
    Fault("link-black-hole", _swallow_all, REDIS | POSTGRES, proxied=True),
    Fault("link-half-open", _half_open, REDIS | POSTGRES, proxied=True),
    Fault("link-reset", _reset, REDIS | POSTGRES, proxied=True),
    Fault("link-refused", _refuse, REDIS | POSTGRES, proxied=True),
    Fault("link-slow", _slow_down, REDIS | POSTGRES, proxied=True),
    Fault("link-one-byte-at-a-time", _byte_by_byte, REDIS | POSTGRES, proxied=True),
]
