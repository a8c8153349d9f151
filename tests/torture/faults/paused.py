"""SIGSTOP of a worker, a producer or a child process, for a part of a lease or several, then SIGCONT."""

from __future__ import annotations

import contextlib
import os
import signal

from tests.torture.arena import Arena, Fault
from tests.torture.fleet import Member, Role
from tests.torture.sqlite_lock import is_writable


def _pauses(role: Role, leases: float) -> Fault:
    name = f"{role}-paused-{leases:g}-leases"

    async def inject(arena: Arena) -> None:
        member = arena.one(role)
        async with arena.fault(name, member.name):
            member.send(signal.SIGSTOP)
            try:
                await arena.fleet.until(lambda: member.stands_still, 10)
                await _stand(arena, member, leases)
            finally:
                member.send(signal.SIGCONT)

    return Fault(name, inject)


async def _stand(arena: Arena, member: Member, leases: float) -> None:
    """A process that stands still amid a commit holds the lock of SQLite: then the store is away for all."""
    file = arena.store.file
    if file is None or is_writable(file):
        await arena.pause(leases=leases)
        return
    async with arena.store_fault(f"{member.role}-paused-in-commit"):
        await arena.pause(leases=leases)


async def _pause_child(arena: Arena) -> None:
    """Its worker holds the leases: nothing may run again because of this, so it hits nobody."""
    for member in arena.fleet.of("worker"):
        for pid in member.children()[:1]:
            async with arena.fault("child-paused"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                await arena.pause(leases=1.5)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            return


FAULTS = [
    _pauses("worker", 0.5),
    _pauses("worker", 1.5),
    _pauses("worker", 5),
    _pauses("producer", 5),
    Fault("child-paused", _pause_child),
]
