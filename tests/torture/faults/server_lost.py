"""The server is killed, restarted, away for longer than a lease, or stands still."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.torture.arena import REDIS, Arena, Fault


async def _start(arena: Arena) -> None:
    """In this thread: a server dies with the thread that started it."""
    arena.store.server.start()


async def _kill(arena: Arena) -> None:
    async with arena.store_fault("server-killed", gentle=True):
        arena.store.server.kill()
        await _start(arena)


async def _restart(arena: Arena) -> None:
    async with arena.store_fault("server-restarted", gentle=True):
        await asyncio.to_thread(arena.store.server.stop)
        await _start(arena)


async def _stay_away(arena: Arena) -> None:
    async with arena.store_fault("server-away-2-leases"):
        arena.store.server.kill()
        await arena.pause(leases=2)
        await _start(arena)


async def _stand_still(arena: Arena) -> None:
    async with arena.store_fault("server-paused-2-leases"):
        pid = arena.store.server.pid
        os.kill(pid, signal.SIGSTOP)
        await arena.pause(leases=2)
        os.kill(pid, signal.SIGCONT)


async def _forget(arena: Arena) -> None:
    async with arena.store_fault("server-restarted-empty", loses=True):
        arena.store.server.kill()
        await _start(arena)
        await arena.pause(leases=1)  # what was under way when it was killed is written to the new one


FAULTS = [
    Fault("server-killed", _kill, REDIS),
    Fault("server-restarted", _restart, REDIS),
    Fault("server-away-2-leases", _stay_away, REDIS),
    Fault("server-paused-2-leases", _stand_still, REDIS),
    Fault("server-restarted-empty", _forget, REDIS, persistent=False),
]
