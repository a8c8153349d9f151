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


def _pauses_child(leases: float) -> Fault:
    """Its worker holds the leases: nothing may run again because of this, so it hits no process."""
    name = f"child-paused-{leases:g}-leases"

    async def inject(arena: Arena) -> None:
        for member in arena.fleet.of("worker"):
            for pid in member.children()[:1]:
                async with arena.fault(name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                    await arena.pause(leases=leases)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                return

    return Fault(name, inject, workload="jobs")


#: Leases for which a process stands still.
TIMES = (0.5, 1.5, 5)

FAULTS = [
    *(_pauses("worker", leases) for leases in TIMES),
    *(_pauses("producer", leases) for leases in TIMES),
    *(_pauses_child(leases) for leases in TIMES),
]
