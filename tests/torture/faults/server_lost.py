"""The server is killed, restarted, away for longer than a lease, or stands still."""

from __future__ import annotations

import asyncio
import signal

from tests.torture.arena import POSTGRES, REDIS, Arena, Fault

#: Seconds within which a server that another fault has taken away is back.
BACK = 60.0


async def _start(arena: Arena) -> None:
    """In this thread: a server dies with the thread that started it."""
    arena.store.process.start()


async def _kill(arena: Arena) -> None:
    """A crash undoes claims of PostgreSQL, so that a message is queued again while it runs."""
    async with arena.store_fault("server-killed", gentle=arena.store.family == "redis"):
        arena.store.process.kill()
        await _start(arena)


async def _restart(arena: Arena) -> None:
    async with arena.store_fault("server-restarted", gentle=True):
        await asyncio.to_thread(arena.store.process.stop)
        await _start(arena)


async def _stay_away(arena: Arena) -> None:
    async with arena.store_fault("server-away-2-leases"):
        arena.store.process.kill()
        await arena.pause(leases=2)
        await _start(arena)


async def _stand_still(arena: Arena) -> None:
    server = arena.store.process
    await arena.fleet.until(lambda: server.running, BACK)  # another fault may have it away
    async with arena.store_fault("server-paused-2-leases"):
        arena.store.signal_server(signal.SIGSTOP)
        await arena.pause(leases=2)
        arena.store.signal_server(signal.SIGCONT)


async def _forget(arena: Arena) -> None:
    async with arena.store_fault("server-restarted-empty", loses=True):
        arena.store.process.kill()
        await _start(arena)
        await arena.pause(leases=1)  # what was under way when it was killed is written to the new one


FAULTS = [
    Fault("server-killed", _kill, REDIS | POSTGRES),
    Fault("server-restarted", _restart, REDIS | POSTGRES),
    Fault("server-away-2-leases", _stay_away, REDIS | POSTGRES),
    Fault("server-paused-2-leases", _stand_still, REDIS | POSTGRES),
    Fault("server-restarted-empty", _forget, REDIS, persistent=False),
]
